from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from nngcd.core import atomic as module
from nngcd.core import files
from nngcd.core.atomic import atomic, mapped_array, remove_leftovers, temporary_beside, writing
from nngcd.core.errors import ResourceError
from nngcd.core.verified_files import read_tensors

LIMITED = """
import resource, sys
import numpy as np, pandas as pd, torch
from pathlib import Path
from nngcd.core import files
from nngcd.core.errors import ResourceError
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
for write in sys.argv[1:]:
    try:
        exec(write)
    except ResourceError as error:
        print(error)
"""
TOO_LARGE = {
    "tensors": "files.write_tensors(Path('kept'), {'a': torch.zeros(100_000)})",
    "parquet": "files.write_table(Path('kept.parquet'), pd.DataFrame({'a': np.random.rand(100_000)}))",
    "csv": "files.write_table(Path('kept.csv'), pd.DataFrame({'a': np.random.rand(100_000)}))",
    "text": "files.write_text(Path('kept'), 'x' * 100_000)",
    "rows of csv": "with files.table_writer(Path('kept.csv')) as add: "
    "add(pd.DataFrame({'a': np.random.rand(100_000)}))",
    "rows of parquet": "with files.table_writer(Path('kept.parquet')) as add: "
    "add(pd.DataFrame({'a': np.random.rand(100_000)}))",
}


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_behind(tmp_path):
    path = tmp_path / "kept.txt"
    files.write_text(path, "old")
    with pytest.raises(RuntimeError), atomic(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_a_clear_error(tmp_path):
    with pytest.raises(ResourceError, match=r"R01: .*No space left.*another folder"), atomic(tmp_path / "x"):
        raise OSError(28, "No space left on device")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that takes no files")
def test_a_place_that_takes_no_files_is_a_clear_error():
    with pytest.raises(ResourceError, match=r"R01: cannot write /proc/x: "):
        files.write_table(Path("/proc/x"), pd.DataFrame({"a": [1]}))


def test_a_file_in_place_of_a_folder_is_a_clear_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ResourceError, match=r"R01: cannot write .*file/y/x: .*another folder"):
        files.write_text(tmp_path / "file" / "y" / "x", "text")


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOENT])
def test_an_error_of_reading_is_not_called_one_of_writing(tmp_path, number):
    with pytest.raises(OSError, match=os.strerror(number)), atomic(tmp_path / "x"):
        raise OSError(number, os.strerror(number), "other")
    with (
        pytest.raises(ResourceError, match=r"R01: cannot write .*x: "),
        atomic(tmp_path / "x"),
        writing(tmp_path / "x"),
    ):
        raise OSError(number, os.strerror(number))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_every_library_that_cannot_write_is_r01(tmp_path):
    for name in ("kept", "kept.csv", "kept.parquet"):
        (tmp_path / name).write_text("old")
    found = subprocess.run([sys.executable, "-c", LIMITED, *TOO_LARGE.values()], cwd=tmp_path, text=True,
                           capture_output=True)  # fmt: skip
    assert (found.returncode, found.stderr) == (0, "")
    for kind, line in zip(TOO_LARGE, found.stdout.splitlines(), strict=True):
        assert line.startswith("R01: cannot write kept") and "File too large" in line, kind
    assert {path.read_text() for path in tmp_path.iterdir()} == {"old"}
    assert len(list(tmp_path.iterdir())) == 3


def test_tensors_on_a_full_disk_are_r01(small_disk):
    files.write_tensors(small_disk / "t", {"a": torch.ones(1000)})
    with pytest.raises(ResourceError, match=r"R01: cannot write .*No space left on device.*Free some space"):
        files.write_tensors(small_disk / "t", {"a": torch.zeros(10**6)})
    assert read_tensors(small_disk / "t")[0]["a"].sum() == 1000
    assert [path.name for path in small_disk.iterdir()] == ["t"]


def test_room_for_a_mapped_file_is_taken_before_it_is_filled(small_disk):
    path = small_disk / "a.npy"
    with pytest.raises(ResourceError, match=r"R01: cannot write .*a\.npy: No space left"), atomic(path) as temporary:
        mapped_array(path, temporary, np.float32, (10**6,))
    assert not list(small_disk.iterdir())


def test_a_disk_that_cannot_reserve_room_is_no_obstacle(tmp_path, monkeypatch):
    def unknown(*arguments):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(module.os, "posix_fallocate", unknown, raising=False)
    with atomic(tmp_path / "a.npy") as temporary:
        mapped_array(tmp_path / "a.npy", temporary, np.float32, (4,))[:] = 3
    assert np.load(tmp_path / "a.npy").tolist() == [3, 3, 3, 3]


def test_a_folder_that_was_deleted_meanwhile_is_said_to_be(tmp_path):
    folder = tmp_path / "cache"
    with pytest.raises(ResourceError, match=r"R01: .*folder is gone"), atomic(folder / "x") as temporary:
        temporary.write_text("half")
        temporary.unlink()
        folder.rmdir()


def gone_process():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


def left_by(pid, path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(module.os, "getpid", lambda: pid)
        return temporary_beside(path)


def test_what_a_killed_process_left_is_removed_by_the_next_that_writes_there(tmp_path, monkeypatch):
    left = left_by(gone_process(), tmp_path / "a", monkeypatch)
    folder = left_by(gone_process(), tmp_path / "images", monkeypatch)
    left.touch()
    (folder / "red").mkdir(parents=True)
    at_work = left_by(os.getppid(), tmp_path / "a", monkeypatch)
    at_work.touch()
    elsewhere = left.with_name(left.name.replace(module._HOST, "0123abcd"))
    elsewhere.touch()
    mine = tmp_path / ".mine.tmp"
    mine.touch()
    os.utime(mine, (0, 0))
    module._remove_leftovers_once.cache_clear()
    files.write_text(tmp_path / "b", "text")
    assert set(tmp_path.iterdir()) == {at_work, elsewhere, mine, tmp_path / "b"}


def test_half_files_of_other_machines_go_after_a_day(tmp_path):
    (left := tmp_path / ".a.0123abcd-17-89abcdef.tmp").touch()
    remove_leftovers(tmp_path)
    assert left.is_file()
    os.utime(left, (time.time() - 90_000,) * 2)
    remove_leftovers(tmp_path)
    assert not list(tmp_path.iterdir())
