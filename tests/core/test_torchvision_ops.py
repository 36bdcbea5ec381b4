import importlib
import subprocess
import sys

import pytest

from nngcd.core import torchvision_ops
from nngcd.core.torchvision_ops import make_torchvision_importable


@pytest.mark.slow
def test_timm_can_be_imported_in_a_fresh_process_and_a_second_call_is_harmless():
    code = (
        "from nngcd.core.torchvision_ops import make_torchvision_importable as make\n"
        "make(); make()\n"
        "import timm, torchvision.transforms.v2\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_working_torchvision_is_left_alone(monkeypatch):
    monkeypatch.setattr(importlib, "import_module", lambda name: None)
    monkeypatch.setattr(torchvision_ops, "_declarations", [])
    make_torchvision_importable()
    assert torchvision_ops._declarations == []


def test_other_failures_are_not_hidden(monkeypatch):
    def fail(name):
        raise RuntimeError("something else")

    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(RuntimeError, match="something else"):
        make_torchvision_importable()
