from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from nngcd.core import files
from nngcd.core.errors import ResourceError


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_behind(tmp_path):
    path = tmp_path / "kept.txt"
    files.write_text(path, "old")
    with pytest.raises(RuntimeError), files.atomic(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_a_clear_error(tmp_path):
    with pytest.raises(ResourceError, match=r"No space left.*another place"), files.atomic(tmp_path / "x"):
        raise OSError(28, "No space left on device")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that takes no files")
def test_a_place_that_takes_no_files_is_a_clear_error():
    with pytest.raises(ResourceError, match=r"R01: cannot write /proc/x: .*another place"):
        files.write_table(Path("/proc/x"), pd.DataFrame({"a": [1]}))


def test_a_file_in_place_of_a_folder_is_a_clear_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ResourceError, match=r"R01: cannot write .*file/y/x"):
        files.write_text(tmp_path / "file" / "y" / "x", "text")


def test_another_file_that_is_missing_is_not_called_a_write_error(tmp_path):
    with pytest.raises(FileNotFoundError), files.atomic(tmp_path / "x"):
        (tmp_path / "other").read_text()


def test_tables_keep_their_values(tmp_path):
    table = pd.DataFrame({"name": ["a,b", 'say "hi"'], "value": [1.5, 2.0]})
    for name in ("t.csv", "t.parquet"):
        files.write_table(tmp_path / name, table)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "t.csv"), table, check_dtype=False)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "t.parquet"), table, check_dtype=False)
