"""Shards that are killed in the middle of their work merge into what one process writes (the benchmark, in small)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "killed_shards.py"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="kills processes")
def test_killed_shards_merge_into_what_one_process_writes():
    command = [sys.executable, SCRIPT, "--short"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(SCRIPT.parents[1] / "src")])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "same bytes: True" in done.stdout
