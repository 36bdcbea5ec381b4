from __future__ import annotations

import os

import pytest
import torch

from nngcd.core.cores import n_cores
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


@pytest.mark.parametrize("n_workers", [-5, 10**6])
def test_numbers_of_workers_that_cannot_be_meant_are_refused(n_workers):
    with pytest.raises(ConfigError, match="workers"):
        choose_workers(n_workers)


@pytest.mark.parametrize("text", ["junk", "", "0", "-1", "1.5"])
def test_junk_in_the_variables_of_torchrun_is_refused_by_name(monkeypatch, text, nngcd):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", text)
    with pytest.raises(ConfigError, match="LOCAL_WORLD_SIZE"):
        choose_workers(None)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", text)
    code, _, err = nngcd("doctor")
    assert code == 2
    assert f"WORLD_SIZE = {text!r}" in err


def test_only_cores_that_this_process_may_use_count(monkeypatch):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 7, 9}, raising=False)
    assert (n_cores(), choose_workers(None)) == (3, 3)
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS
    assert (n_cores(), choose_workers(None)) == (5, 5)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert (n_cores(), choose_workers(None)) == (1, 1)
