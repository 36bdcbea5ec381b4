import os
import socket
import sys

import pytest

from nngcd.core.errors import DataError
from nngcd.data.file_tree import is_hidden, walk


@pytest.mark.parametrize("name", [".DS_Store", "._a.jpg", "Thumbs.db", "@eaDir", ".git", "desktop.ini", "__MACOSX"])
def test_system_files_are_hidden(name, tmp_path):
    assert is_hidden(name)
    (tmp_path / name).mkdir()
    (tmp_path / name / "a.jpg").touch()
    (tmp_path / "b.jpg").touch()
    assert walk(tmp_path).file_names == ["b.jpg"]


def test_files_come_sorted_with_forward_slashes(tmp_path):
    for name in ("b/2.jpg", "a/x/1.jpg", "c.jpg", "b/10.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    tree = walk(tmp_path)
    assert tree.file_names == ["a/x/1.jpg", "b/10.jpg", "b/2.jpg", "c.jpg"]
    assert tree.folders == ["a", "b"]


def test_a_missing_folder_gets_a_suggestion(tmp_path):
    (tmp_path / "plankton").mkdir()
    with pytest.raises(DataError, match=r"D01: .*plnkton' not found; expected a folder.*Did you mean '.*plankton'"):
        walk(tmp_path / "plnkton")


def test_links_are_followed_inside_the_folder_only(tmp_path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    for name in (root / "a", root / "b", outside):
        name.mkdir(parents=True)
        (name / "1.jpg").touch()
    (root / "a" / "file.jpg").symlink_to(root / "b" / "1.jpg")
    (root / "c").symlink_to(root / "b")
    (root / "away").symlink_to(outside)
    (root / "a" / "away.jpg").symlink_to(outside / "1.jpg")
    (root / "a" / "broken.jpg").symlink_to(root / "nothing.jpg")
    tree = walk(root)
    assert tree.file_names == ["a/1.jpg", "a/file.jpg", "b/1.jpg", "c/1.jpg"]
    assert tree.folders == ["a", "b", "c"]
    assert [(problem.file_name, problem.code, problem.reason) for problem in tree.problems] == [
        ("a/away.jpg", "D19", "link leaves the folder"),
        ("a/broken.jpg", "D19", "broken link"),
        ("away", "D19", "link leaves the folder"),
    ]


@pytest.mark.timeout(20)
def test_loops_of_links_end(tmp_path):
    folders = [tmp_path / f"folder{index}" for index in range(12)]
    for folder in folders:
        folder.mkdir()
        (folder / "1.jpg").touch()
        (folder / "up").symlink_to(tmp_path)
        for index, other in enumerate(folders):
            (folder / f"link{index}").symlink_to(other)
    (tmp_path / "itself").symlink_to(tmp_path / "itself")
    tree = walk(tmp_path)
    assert len(tree.file_names) == 12 * 12
    reasons = {problem.reason for problem in tree.problems}
    assert reasons == {"link leads back to a folder above it", "link below a linked folder", "broken link"}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not allow such names")
def test_names_that_are_not_utf8_are_listed(tmp_path):
    with open(os.fsencode(tmp_path) + b"/caf\xe9.jpg", "wb"):  # noqa: PTH123 (pathlib has no bytes paths)
        pass
    tree = walk(tmp_path)
    assert tree.file_names == []
    assert [(problem.file_name, problem.code) for problem in tree.problems] == [("caf?.jpg", "D27")]


@pytest.mark.skipif(sys.platform == "win32", reason="there are none")
def test_pipes_and_sockets_are_listed_and_not_opened(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe.jpg")
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as open_socket:
        open_socket.bind("socket.jpg")
        tree = walk(tmp_path)
    assert tree.file_names == []
    assert [(problem.file_name, problem.code, problem.reason) for problem in tree.problems] == [
        ("pipe.jpg", "D28", "not a file, but a named pipe"),
        ("socket.jpg", "D28", "not a file, but a socket"),
    ]
