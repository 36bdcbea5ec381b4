"""The method in docs/guides/extending.md works as printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nngcd.methods
from nngcd.core.components import component_names
from nngcd.pipeline import fit
from nngcd.settings import resolve

PAGE = Path(__file__).parents[1] / "docs" / "guides" / "extending.md"


@pytest.fixture
def printed_method(tmp_path, monkeypatch):
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL).group(1)
    (tmp_path / "centroid.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(nngcd.methods, "__path__", [*nngcd.methods.__path__, str(tmp_path)])
    component_names.cache_clear()
    yield
    component_names.cache_clear()


def test_the_printed_method_passes_the_linter():
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL).group(1)
    command = [sys.executable, "-m", "ruff", "check", "--stdin-filename", "src/nngcd/methods/centroid.py", "-"]
    done = subprocess.run(command, input=code, capture_output=True, text=True, check=False, cwd=PAGE.parents[2])
    assert done.returncode == 0, done.stdout


@pytest.mark.usefixtures("printed_method")
def test_the_printed_method_sorts_blobs(blob_split, blobs):
    settings = resolve({"method": "centroid", "k": 6, "training": {"epochs": 8, "batch_size": 48}})
    cluster = fit(blob_split, settings).scores_nk.argmax(-1).numpy()
    is_old = blobs[2] < 3
    assert np.mean(cluster[is_old] == blobs[2][is_old]) > 0.9
