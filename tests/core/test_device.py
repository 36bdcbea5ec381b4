from __future__ import annotations

import pytest
import torch

from nngcd.core.device import choose_device, choose_precision, choose_workers
from nngcd.core.errors import ConfigError, ResourceError


def test_a_missing_device_says_what_to_do(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ResourceError, match=r"no cuda device.*--device cpu"):
        choose_device("cuda")
    with pytest.raises(ConfigError, match="is not a device"):
        choose_device("toaster")
    assert choose_device("cpu").type == "cpu"


def test_auto_takes_the_accelerator_that_is_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto").type == "cuda"


def test_auto_takes_the_cpu_where_there_is_no_cuda_also_beside_an_apple_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device("auto").type == "cpu"
    assert choose_device("mps").type == "mps"


def test_half_precision_only_where_the_hardware_has_it(monkeypatch):
    assert choose_precision("auto", torch.device("cpu")) == "32-true"
    for has_bf16, expected in ((True, "bf16-mixed"), (False, "16-mixed")):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda has=has_bf16: has)
        assert choose_precision("auto", torch.device("cuda")) == expected
    assert choose_precision("16-mixed", torch.device("cpu")) == "16-mixed"
    with pytest.raises(ConfigError, match="precision"):
        choose_precision("8", torch.device("cpu"))


def test_workers_are_as_asked_or_counted():
    assert choose_workers(0) == 0
    assert choose_workers(None) >= 1
