from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from nngcd.core.errors import ResourceError
from nngcd.core.locks import hold

HOLDING = """
import sys
from pathlib import Path
from nngcd.core.locks import hold
with hold(Path(sys.argv[1])):
    print("held", flush=True)
    input()
"""
ROUNDS = """
import os, sys, time
from pathlib import Path
from nngcd.core.errors import ResourceError
from nngcd.core.locks import hold
folder, n_rounds = Path(sys.argv[1]), int(sys.argv[2])
n_held = 0
end = time.monotonic() + 60
while n_held < n_rounds and time.monotonic() < end:
    try:
        with hold(folder):
            inside = os.open(folder / "inside", os.O_CREAT | os.O_EXCL)  # fails if another process is inside
            os.close(inside)
            time.sleep(0)
            os.unlink(folder / "inside")
            n_held += 1
    except ResourceError as error:
        assert str(error).startswith("T11"), error
print(n_held)
"""


def holding(folder):
    process = subprocess.Popen([sys.executable, "-c", HOLDING, str(folder)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)  # fmt: skip
    assert process.stdout.readline() == "held\n"
    return process


def is_free(folder):
    try:
        with hold(folder):
            return True
    except ResourceError:
        return False


def test_a_live_process_holds_its_folder_and_is_named(tmp_path):
    with holding(tmp_path) as other:
        with (
            pytest.raises(ResourceError, match=f"T11: .* is in use by process {other.pid} on .*stop it"),
            hold(tmp_path),
        ):
            pass
        other.stdin.close()
    assert is_free(tmp_path)


def test_the_lock_of_a_killed_process_is_free_at_once(tmp_path):
    with holding(tmp_path) as other:
        other.kill()
    assert is_free(tmp_path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_outlives_its_killed_parent_does_not_hold_on(tmp_path):
    read, write = os.pipe()
    parent = os.fork()
    if parent == 0:
        with hold(tmp_path):
            child = os.fork()
            if child == 0:
                time.sleep(60)
            os.write(write, b"%d\n" % child)
            time.sleep(60)
        os._exit(0)
    child = int(os.read(read, 20))
    assert not is_free(tmp_path)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    try:
        assert is_free(tmp_path)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_process_cannot_hold_a_folder_twice(tmp_path):
    with hold(tmp_path):
        assert not is_free(tmp_path)
    assert is_free(tmp_path)


@pytest.mark.parametrize("content", ["", json.dumps({"pid": 1, "host": "elsewhere"}), '{"pid": "abc"}', "\x00"])
def test_a_lock_file_that_nobody_holds_is_no_obstacle(tmp_path, content):
    (tmp_path / ".lock").write_text(content)
    (tmp_path / ".holder").write_text(content)
    with hold(tmp_path):
        assert json.loads((tmp_path / ".holder").read_text())["pid"] == os.getpid()
    assert not (tmp_path / ".holder").exists()


@pytest.mark.parametrize("content", ["", "[]", '{"pid": "abc", "host": 1}', "\x00"])
def test_a_holder_that_cannot_be_read_is_another_process(tmp_path, content):
    with hold(tmp_path):
        (tmp_path / ".holder").write_text(content)
        with pytest.raises(ResourceError, match="in use by another process"), hold(tmp_path):
            pass


def test_a_folder_that_takes_no_lock_is_r01(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ResourceError, match=r"R01: cannot write .*file/\.lock"), hold(tmp_path / "file"):
        pass


@pytest.mark.slow
def test_three_processes_never_hold_a_folder_at_once(tmp_path):
    start = [sys.executable, "-c", ROUNDS, str(tmp_path), "300"]
    processes = [subprocess.Popen(start, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    results = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], results
    assert all(int(out) > 0 for out, _ in results)
