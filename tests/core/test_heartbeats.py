"""Processes that give no sign of life: unit tests on a store in memory, and a process that is really stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from nngcd.core import heartbeats
from nngcd.core.heartbeats import Heartbeats

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
QUICK = """
import sys, time
from nngcd.core import heartbeats
heartbeats.SECONDS_BETWEEN, heartbeats.SECONDS_SILENT = 0.5, 6.0
from nngcd.runs import parts
write = parts._write_part
def slowly(*arguments):
    time.sleep(3)
    return write(*arguments)
parts._write_part = slowly
from nngcd.cli import program
program()
"""


@pytest.fixture
def store():
    from torch.distributed import HashStore

    return HashStore()


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(heartbeats, "SECONDS_BETWEEN", 0.02)
    monkeypatch.setattr(heartbeats, "SECONDS_SILENT", 0.5)


def test_a_silent_process_is_named_once(store, quick):
    said = []
    first, second = (Heartbeats(store, rank, 2, said.append) for rank in (0, 1))
    first.start()
    second.start()
    time.sleep(0.8)
    assert not said
    second._is_over.set()  # stops without a word
    first.join(5)
    assert len(said) == 1
    assert re.match(rf"T12: process 1 of 2 \(pid {os.getpid()} on .*\) has given no sign of life", said[0])


def test_a_process_that_leaves_is_not_missed(store, quick):
    said = []
    first, second = (Heartbeats(store, rank, 2, said.append) for rank in (0, 1))
    first.start()
    second.start()
    time.sleep(0.1)
    second.leave()
    time.sleep(1.0)
    assert first.is_alive() and not said
    first.leave()


def test_one_process_alone_has_no_heartbeat():
    assert heartbeats.begin(lambda words: None) is None


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="stops a process")
def test_torchrun_shares_out_and_says_who_has_stopped(nngcd, blobs, tmp_path):
    """The first process waits for the others' parts: it merges them, or says which process was stopped."""
    np.savez(tmp_path / "blobs.npz", X=blobs[0], y=blobs[1])
    run, script = tmp_path / "run", tmp_path / "quick.py"
    assert nngcd("fit", tmp_path / "blobs.npz", "--k", 6, "--method", "kmeans", "-q", "--out", run)[0] == 0
    script.write_text("import nngcd.data.sources as s\ns.FEATURES_PER_READ = 50\n" + QUICK)
    command = [*TORCHRUN, script, "predict", run, tmp_path / "blobs.npz", "-q", "--out"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}

    stopped = subprocess.Popen([*command, tmp_path / "stopped"], stderr=subprocess.PIPE, text=True, env=environment)
    while not list((tmp_path / "stopped").glob("part-*")) and stopped.poll() is None:
        time.sleep(0.1)
    victim = next(pid for pid in children_of(stopped.pid) if rank_of(pid) == "1")
    os.kill(victim, signal.SIGSTOP)
    started = time.monotonic()
    said = ""
    while "T12" not in said and (line := stopped.stderr.readline()):
        said += line
    assert time.monotonic() - started < 60
    os.kill(victim, signal.SIGKILL)
    said += stopped.stderr.read()
    said = " ".join(said.split())
    assert stopped.wait() != 0
    assert f"T12: process 1 of 2 (pid {victim} on" in said
    assert "Finished parts are kept; start the same command again." in said

    again = subprocess.run(
        [*command, tmp_path / "stopped"], capture_output=True, text=True, env=environment, check=False
    )
    assert again.returncode == 0, again.stderr
    assert "240 rows in 5 parts" in again.stdout
    assert (tmp_path / "stopped" / "_manifest.json").is_file()


def children_of(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def rank_of(pid):
    values = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next((value.removeprefix(b"RANK=").decode() for value in values if value.startswith(b"RANK=")), None)
