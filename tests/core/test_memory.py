import mmap
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from nngcd.core.memory import forget_peak, is_out_of_memory, keep_freed_memory, peak_gb


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can forget a peak")
def test_the_peak_is_that_of_the_run():
    forget_peak()
    before = peak_gb()["ram"]
    # Straight from the system: what other tests have freed may be kept for the next array (`keep_freed_memory`).
    block = mmap.mmap(-1, 300_000_000)
    np.frombuffer(block, dtype=np.uint8)[:] = 1
    with_block = peak_gb()["ram"]
    assert with_block > before + 0.25
    block.close()
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


def faults(way: str, **environment: str) -> int:
    """Return how often a fresh process is given a page while it makes and frees blocks of 80 MB."""
    code = f"""
import resource
from nngcd.core.memory import keep_freed_memory
{way}
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
size = 80_000_000
for _ in range(10):
    b"1" * size  # no array: numpy asks for large pages, which are sometimes to be had
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | environment, capture_output=True, check=True)
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="a setting of glibc")
def test_freed_memory_is_kept_for_what_comes_next_unless_the_user_has_set_it():
    each_time = faults("")
    assert faults("keep_freed_memory()") < each_time / 5
    assert faults("keep_freed_memory()", MALLOC_ARENA_MAX="8") > each_time / 2


def test_where_there_is_nothing_to_set_nothing_happens(monkeypatch):
    monkeypatch.setattr("nngcd.core.memory.ctypes.CDLL", lambda _: object())
    keep_freed_memory()
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr("nngcd.core.memory.ctypes.CDLL", None)
    keep_freed_memory()
