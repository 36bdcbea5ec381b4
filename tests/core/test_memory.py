import sys

import numpy as np
import pytest
import torch

from nngcd.core.memory import forget_peak, is_out_of_memory, peak_gb


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can forget a peak")
def test_the_peak_is_that_of_the_run():
    forget_peak()
    before = peak_gb()["ram"]
    block = np.ones(300_000_000, dtype=np.uint8)
    with_block = peak_gb()["ram"]
    assert with_block > before + 0.25
    del block
    assert peak_gb()["ram"] == pytest.approx(with_block, abs=0.02)
    forget_peak()
    assert peak_gb()["ram"] < with_block - 0.25


def test_the_whole_process_is_charged_where_nothing_can_be_forgotten(monkeypatch, tmp_path):
    monkeypatch.setattr("nngcd.core.memory._STATUS", tmp_path / "absent")
    monkeypatch.setattr("nngcd.core.memory._FORGET", tmp_path / "no" / "such")
    forget_peak()
    assert 0.05 < peak_gb()["ram"] < 200


def test_memory_that_runs_out_is_known_by_what_torch_says_on_a_cpu():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(torch.OutOfMemoryError("gpu"))
    assert not is_out_of_memory(RuntimeError("sizes do not match"))
