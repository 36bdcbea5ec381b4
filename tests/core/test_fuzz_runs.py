"""Damaged files of run folders are read or refused with a reason: the short form of benchmarks/fuzz_runs.py."""

import numpy as np
import pytest
from run_readers import Fuzzed


@pytest.mark.slow
def test_damaged_files_of_a_run_are_read_or_refused_with_a_reason(tmp_path):
    fuzzed, rng = Fuzzed(tmp_path), np.random.default_rng(0)
    outcomes = [fuzzed.try_one(rng) for _ in range(200)]
    assert set(outcomes) == {"refused", "fine"}
    assert outcomes.count("refused") > 100
