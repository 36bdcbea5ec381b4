import os
import pickle

import miniatures
import numpy as np
import pytest

from nngcd.core.errors import DataError
from nngcd.datasets.plain_pickle import read_plain_pickle

CONTENT = {"data": np.arange(6, dtype=np.uint8).reshape(2, 3), "labels": [3, 1], "name": "batch 1", "more": {"a": 1.5}}


class Harmful:
    """Writes a file when it is loaded by an ordinary unpickler."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def check(found):
    assert list(found) == list(CONTENT)
    assert (found["data"] == CONTENT["data"]).all() and found["data"].dtype == np.uint8
    assert (found["labels"], found["name"], found["more"]) == ([3, 1], "batch 1", {"a": 1.5})


def test_plain_data_of_python_2_and_3_are_read(tmp_path):
    miniatures.write_python2_pickle(tmp_path / "two", CONTENT)
    assert b"numpy.core.multiarray" in (tmp_path / "two").read_bytes()
    check(read_plain_pickle(tmp_path / "two"))
    (tmp_path / "three").write_bytes(pickle.dumps(CONTENT, protocol=4))
    check(read_plain_pickle(tmp_path / "three"))


def test_keys_of_bytes_become_text(tmp_path):
    (tmp_path / "x").write_bytes(pickle.dumps({b"labels": [1]}))
    assert read_plain_pickle(tmp_path / "x") == {"labels": [1]}


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_code_is_refused_and_not_run(tmp_path, protocol):
    trace = tmp_path / "trace"
    content = pickle.dumps({"data": Harmful(trace)}, protocol=protocol)
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(DataError, match=r"D17: '.*x' is refused: it asks for '(posix|nt|os)\.mkdir'"):
        read_plain_pickle(tmp_path / "x")
    assert not trace.exists()
    pickle.loads(content)
    assert trace.exists()  # the test would have noticed


@pytest.mark.parametrize("content", [b"builtins\neval", b"numpy\nload", b"numpy.core.multiarray\nfromfile"])
def test_other_names_are_refused(tmp_path, content):
    (tmp_path / "x").write_bytes(b"c" + content + b"\n.")
    with pytest.raises(DataError, match="is refused: it asks for"):
        read_plain_pickle(tmp_path / "x")


def test_broken_files_are_refused(tmp_path):
    miniatures.write_python2_pickle(tmp_path / "x", CONTENT)
    whole = (tmp_path / "x").read_bytes()
    for content in (b"", b"<html>", whole[: len(whole) // 2], whole[:-1]):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(DataError, match=r"D17: '.*x' cannot be read as a pickle"):
            read_plain_pickle(tmp_path / "x")
    (tmp_path / "x").write_bytes(pickle.dumps([1]))
    with pytest.raises(DataError, match="holds a list, not a dictionary"):
        read_plain_pickle(tmp_path / "x")
