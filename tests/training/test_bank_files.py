from __future__ import annotations

import numpy as np
import pytest

from nngcd.training.bank_files import ViewKeys, find_views, seal, view_file, write_keys

SHAPE = (2,)


def keys(*names):
    return np.array([name.encode() for name in names], dtype=bytes)


def keep(folder, view, *names, rows=None, dtype=np.float16):
    """Write a file of one view, whose row i is i everywhere."""
    key_m = keys(*names)
    n_rows = len(names) if rows is None else rows
    path = folder / view_file(key_m, view)
    np.save(path, np.arange(n_rows, dtype=dtype)[:, None].repeat(2, 1))
    seal(path, path.name)
    write_keys(folder, key_m)


def wanted(*names):
    """The centre view of an image has its name in small letters, random views in capital ones."""
    return ViewKeys(keys(*names), keys(*(name.upper() for name in names)))


def test_views_are_found_by_their_keys_in_whatever_file_and_row(tmp_path):
    keep(tmp_path, 0, "a", "b", "c")
    keep(tmp_path, 0, "d")
    keep(tmp_path, 1, "B", "A")
    found = find_views(tmp_path, wanted("d", "b", "a", "b", "x"), 3, SHAPE)
    rows = [
        [
            int(np.load(tmp_path / found.files[file])[row, 0]) if file >= 0 else None
            for file, row in zip(files, rows, strict=True)
        ]
        for files, rows in zip(found.file_nv, found.row_nv, strict=True)
    ]
    assert rows == [[0, None, None], [1, 0, None], [0, 1, None], [1, 0, None], [None, None, None]]
    assert found.files[found.file_nv[0, 0]] == view_file(keys("d"), 0)


def test_what_is_missing_comes_together_by_the_views_it_lacks(tmp_path):
    keep(tmp_path, 0, "a", "b", "c")
    keep(tmp_path, 1, "B")
    found = find_views(tmp_path, wanted("a", "b", "c", "x"), 2, SHAPE)
    assert {views: image_m.tolist() for image_m, views in found.missing()} == {(1,): [0, 2], (0, 1): [3]}
    assert not list(find_views(tmp_path, wanted("c", "a"), 1, SHAPE).missing())


def test_a_centre_view_is_no_random_one(tmp_path):
    keep(tmp_path, 0, "A", "B")
    found = find_views(tmp_path, wanted("a", "b"), 2, SHAPE)
    assert (found.file_nv == -1).all()


@pytest.mark.parametrize("rows", [{"rows": 1}, {"dtype": np.float32}], ids=str)
def test_a_file_of_another_shape_counts_as_missing(tmp_path, rows):
    keep(tmp_path, 0, "a", "b", **rows)
    assert (find_views(tmp_path, wanted("a", "b"), 1, SHAPE).file_nv == -1).all()


def a_folder(listed):
    listed.unlink()
    listed.mkdir()


DAMAGE_TO_A_FILE = {
    "cut": lambda content: content[:-3],
    "zeroed": lambda content: content[:-34] + bytes(2) + content[-32:],
    "head never ends": lambda content: content.replace(b"}", b" ", 1),
    "no seal": lambda content: content[:-32],
    "another's seal": lambda content: content[:-32] + bytes(32),
}
DAMAGE_TO_A_LIST = {
    "gone": lambda listed: listed.unlink(),
    "another": lambda listed: listed.write_bytes(b"b\na"),
    "empty": lambda listed: listed.write_bytes(b""),
    "a folder": a_folder,
}


@pytest.mark.parametrize("damage", DAMAGE_TO_A_FILE)
def test_a_damaged_file_counts_as_missing(tmp_path, damage):
    keep(tmp_path, 0, "a", "b")
    path = tmp_path / view_file(keys("a", "b"), 0)
    path.write_bytes(DAMAGE_TO_A_FILE[damage](path.read_bytes()))
    assert (find_views(tmp_path, wanted("a", "b"), 1, SHAPE).file_nv == -1).all()


def test_a_file_in_the_place_of_another_counts_as_missing(tmp_path):
    keep(tmp_path, 0, "a", "b")
    keep(tmp_path, 0, "c", "d")
    path = tmp_path / view_file(keys("a", "b"), 0)
    path.write_bytes((tmp_path / view_file(keys("c", "d"), 0)).read_bytes())
    assert (find_views(tmp_path, wanted("a", "b"), 1, SHAPE).file_nv == -1).all()
    path.unlink()
    assert (find_views(tmp_path, wanted("a", "b"), 1, SHAPE).file_nv == -1).all()


@pytest.mark.parametrize("damage", DAMAGE_TO_A_LIST)
def test_files_whose_list_is_damaged_count_as_missing(tmp_path, damage):
    keep(tmp_path, 0, "a", "b")
    (listed,) = tmp_path.glob("*.keys")
    DAMAGE_TO_A_LIST[damage](listed)
    assert (find_views(tmp_path, wanted("a", "b"), 1, SHAPE).file_nv == -1).all()


def test_a_view_in_several_files_is_taken_from_one(tmp_path):
    keep(tmp_path, 0, "a", "b")
    keep(tmp_path, 0, "b", "c")
    found = find_views(tmp_path, wanted("b"), 1, SHAPE)
    file, row = found.files[found.file_nv[0, 0]], found.row_nv[0, 0]
    assert (file, row) in {(view_file(keys("a", "b"), 0), 1), (view_file(keys("b", "c"), 0), 0)}


def test_a_file_that_is_written_is_where_it_was_said_to_be(tmp_path):
    found = find_views(tmp_path, wanted("a", "b", "c"), 2, SHAPE)
    found.add("new.npy", np.array([2, 0]), 1)
    assert (found.files, found.file_nv.tolist()) == (["new.npy"], [[-1, 0], [-1, -1], [-1, 0]])
    assert (found.row_nv[2, 1], found.row_nv[0, 1]) == (0, 1)


def test_an_empty_folder_holds_nothing(tmp_path):
    found = find_views(tmp_path, wanted("a", "b"), 2, SHAPE)
    assert found.files == []
    assert {views: image_m.tolist() for image_m, views in found.missing()} == {(0, 1): [0, 1]}
