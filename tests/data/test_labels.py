import warnings

import pytest

from nngcd.core.errors import DataError, NngcdWarning
from nngcd.data.findings import contradicted
from nngcd.data.labels import (
    alike_names,
    duplicates_to_drop,
    find_contradictions,
    index_names,
    settle_unclear,
    warn_of_alike,
)


@pytest.mark.parametrize("name", ["unknown", "Other", "-1", "?", "NaN", "misc "])
def test_unclear_names_are_asked_about_and_settled_either_way(name):
    names = ["owl", name, name, None]
    with pytest.raises(DataError, match=r"D08: 2 images.*--unlabelled .*--category "):
        settle_unclear(names)
    assert settle_unclear(names, unlabelled_names=[name]) == ["owl", None, None, None]
    assert settle_unclear(names, category_names=[name]) == names


def test_class_names_are_sorted_and_numbers_as_numbers():
    labels, names = index_names(["b", None, "a", "b"])
    assert (labels.tolist(), names) == ([1, -1, 0, 1], ("a", "b"))
    assert index_names(["10", "9", None])[1] == ("9", "10")
    assert index_names([None])[1] == ()


@pytest.mark.parametrize("other", ["owl ", "OWL", "o w l", "\N{FULLWIDTH LATIN SMALL LETTER O}wl"])
def test_names_that_look_alike_are_pointed_out(other):
    with pytest.warns(NngcdWarning, match="D07"):
        warn_of_alike(["owl", other, None])


def test_different_names_raise_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_alike(["owl", "fowl", "owl", None])


def test_one_content_with_two_labels_is_used_as_unlabelled():
    files, hashes = ["1", "2", "3", "4", "5"], ["x", "x", "y", "y", "x"]
    names, problems = find_contradictions(["owl", "crow", "owl", "owl", None], files, hashes)
    said = "D13: 2 images with an exact copy under another label, first '1' (same content under crow and owl); used as"
    assert str(contradicted(problems)).startswith(said)
    assert names == [None, None, "owl", "owl", None]
    assert [(problem.file_name, problem.code) for problem in problems] == [("1", "D13"), ("2", "D13")]


@pytest.mark.parametrize(
    ("name", "other", "is_alike"),
    [
        ("Copepoda", "copepoda ", True), ("Copepoda", "Copepodda", True), ("Copepoda", "Copepods", True),
        ("Copepoda", "Cpoepoda", True), ("Copepoda", "Copepod", True), ("owl", "fowl", False),
        ("class 1", "class 2", False), ("Ostracoda", "Copepoda", False), ("abcdefg", "bcdefgh", False),
    ],
)  # fmt: skip
def test_a_typo_is_one_letter_in_a_long_name(name, other, is_alike):
    assert alike_names([name, other, "something else"]) == ([sorted([name, other])] if is_alike else [])


def test_of_copies_the_first_labelled_one_stays():
    copies = duplicates_to_drop([None, "owl", "owl", None], ["1", "2", "3", "4"], ["x", "x", "x", "y"])
    assert {row: (problem.file_name, problem.code) for row, problem in copies.items()} == {
        0: ("1", "D12"), 2: ("3", "D12")
    }  # fmt: skip
