"""A little of `benchmarks/chaos.py`: what is broken off or damaged gives the right bytes, or refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHAOS = Path(__file__).parents[1] / "benchmarks" / "chaos.py"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="forks and limits processes")
def test_a_little_chaos_makes_nothing_wrong():
    found = subprocess.run([sys.executable, CHAOS, "--short"], text=True, capture_output=True)
    assert found.returncode == 0, found.stdout + found.stderr
    rows = {line.split()[0]: int(line.split()[1]) for line in found.stdout.splitlines()[-6:-1]}
    assert rows == {"kills": 9, "disks": 6, "flips": 12, "deletions": 6, "locks": 20}
