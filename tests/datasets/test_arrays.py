import numpy as np
import pandas as pd
import pytest
import torch

from nngcd.core.errors import DataError, NngcdWarning
from nngcd.data.reading_settings import ReadingSettings
from nngcd.datasets.arrays import from_arrays, load


def test_features_of_one_and_of_several_views():
    flat = np.arange(6.0).reshape(3, 2)
    split = from_arrays(flat)
    assert split.images is None and split.features_nvd.dtype == np.float32
    assert split.features_nvd.tolist() == flat[:, None].tolist()
    assert split.labels.tolist() == [-1, -1, -1]
    views = np.arange(24.0).reshape(3, 4, 2)
    assert from_arrays(views).features_nvd.tolist() == views.tolist()
    assert from_arrays(flat.astype(np.uint8)).features_nvd.shape == (3, 1, 2)


@pytest.mark.parametrize("shape", [(3, 5, 4), (3, 5, 4, 1), (3, 5, 4, 3)])
def test_uint8_arrays_are_images(shape):
    split = from_arrays(np.zeros(shape, dtype=np.uint8), [0, 1, -1])
    assert split.features_nvd is None
    assert split.images.open(0).size == (4, 5)
    assert split.table["image_id"].is_unique


@pytest.mark.parametrize(
    ("labels", "names", "expected"),
    [
        (np.array([10, 9, -1]), ("9", "10"), [1, 0, -1]),
        ([10, 9, None], ("9", "10"), [1, 0, -1]),
        (np.array([2.0, 1.0, np.nan]), ("1", "2"), [1, 0, -1]),
        (np.array(["b", "a", ""]), ("a", "b"), [1, 0, -1]),
        (np.array(["b", "a", ""]).astype("S"), ("a", "b"), [1, 0, -1]),
        (np.array([b"10", b"9", b"-1"]), ("9", "10"), [1, 0, -1]),
        (["é".encode(), "a", b""], ("a", "é"), [1, 0, -1]),
        ([b"\xe9", b"\xe8", b""], ("\\xe8", "\\xe9"), [1, 0, -1]),
        (np.array(["b", "-a", -1]), ("-a", "b"), [1, 0, -1]),
        (["b", "a", -1], ("a", "b"), [1, 0, -1]),
        (np.array(["b", "a", None], dtype=object), ("a", "b"), [1, 0, -1]),
        (["b", "a", float("nan")], ("a", "b"), [1, 0, -1]),
        (["b", np.str_("a"), np.float32("nan")], ("a", "b"), [1, 0, -1]),
        (["b", "a", "  "], ("a", "b"), [1, 0, -1]),
        (np.ma.masked_equal([5, 4, 9], 9), ("4", "5"), [1, 0, -1]),
        (np.ma.masked_equal(["b", "a", "x"], "x"), ("a", "b"), [1, 0, -1]),
        ([np.int8(5), 4.0, np.float16(-1)], ("4", "5"), [1, 0, -1]),
        (torch.tensor([5, 4, -1]), ("4", "5"), [1, 0, -1]),
        (pd.Series(["b", "a", pd.NA], dtype="string"), ("a", "b"), [1, 0, -1]),
        (pd.Series([5, 4, None], dtype="Int64"), ("4", "5"), [1, 0, -1]),
    ],
)
def test_labels_of_every_kind(labels, names, expected):
    split = from_arrays(np.zeros((3, 2)), labels)
    assert split.class_names == names
    assert split.labels.tolist() == expected


@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        (np.zeros((0, 4)), None, "X is empty"),
        (np.zeros((3, 2)), [0, 1], r"expected shape \(3,\), got \(2,\)"),
        (np.zeros((3, 2)), np.zeros((3, 1)), r"got \(3, 1\)"),
        (np.zeros((3, 2)), ["cat", "unknown", "unknown"], r"D08: y holds 'unknown' 2 times.*Use: -1 or ''"),
        (np.zeros((3, 2)), np.array(["cat", "dog", np.nan]), "D08: y holds 'nan' 1 times"),
        (np.zeros((3, 2)), [0, 1, -2], "y holds -2. Give labels as names or numbers from 0, and -1 for unlabelled"),
        (np.zeros((3, 2)), [0.0, np.nan, -2.5], "y holds -2.5"),
        (np.zeros((3, 2)), [0.0, np.nan, np.inf], "y holds inf"),
        (np.zeros((3, 2)), np.array(["cat", "dog", None]).astype(str), "D08: y holds 'None' 1 times"),
        (np.zeros((3, 2)), ["cat", "\ud800", ""], r"y holds '\\ud800', which cannot be written as UTF-8"),
        (np.ma.masked_equal(np.eye(3), 1), None, "X has masked values"),
        (np.array([[0.0], [np.nan]]), None, "NaN or infinity in 1 rows, first row 1"),
        (np.array([[0, 1], [2, -1e20]], np.float32), None, r"up to 1e\+20 in 1 rows, first row 1, .*; rescale them"),
        (
            np.array([[1e200, 1], [0, 1]]),
            None,
            r"X has values up to 1e\+200 .* overflow when squared; rescale them",
        ),
        (np.full((2, 3, 9), 1e19), None, "overflow when squared"),
        (np.array([[np.nan], [1e200]]), None, "NaN or infinity in 1 rows, first row 0"),
        (np.array(["a", "b"]), None, "X must be"),
        (np.zeros((3, 4, 4, 3)), None, "images must be uint8"),
        (np.zeros((3, 4, 4, 3, 1), np.uint8), None, "X must be"),
    ],
)
def test_what_cannot_be_used_is_named(features, labels, message):
    with pytest.raises(DataError, match=message):
        from_arrays(features, labels)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_tensors_are_taken_also_where_they_need_a_gradient(kind):
    features = torch.arange(6.0).reshape(3, 2).to(kind).requires_grad_()
    assert from_arrays(features).features_nvd.tolist() == [[[0, 1]], [[2, 3]], [[4, 5]]]


def test_a_file_is_read_as_the_user_says(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=np.zeros((3, 2)), y=np.array(["owl", "unknown", ""]))
    with pytest.raises(DataError, match=r"D08: 1 image labelled 'unknown'.*--unlabelled unknown or --category"):
        load(path)
    assert load(path, reading=ReadingSettings(unlabelled_names=("unknown",)))[0].class_names == ("owl",)
    assert load(path, reading=ReadingSettings(category_names=("unknown",)))[0].class_names == ("owl", "unknown")
    assert load(
        path,
        reading=ReadingSettings(
            same=("owl=unknown",),
        ),
    )[0].labels.tolist() == [0, 0, -1]
    with pytest.warns(NngcdWarning, match="D08: no image is labelled 'crow'"):
        load(path, reading=ReadingSettings(unlabelled_names=("unknown", "crow")))
    assert load(path, use_labels=False)[0].labels.tolist() == [-1, -1, -1]


def test_features_as_large_as_can_be_squared_are_taken():
    assert from_arrays(np.full((2, 9), 6e18)).features_nvd.max() == np.float32(6e18)


def test_square_float_images_are_pointed_out():
    with pytest.warns(NngcdWarning, match="Give images as uint8"):
        from_arrays(np.zeros((3, 8, 8)))


def test_the_ids_follow_the_content():
    features = np.random.default_rng(0).normal(size=(4, 3))
    ids = from_arrays(features).table["image_id"]
    assert ids.tolist() == from_arrays(features.copy()).table["image_id"].tolist()
    features[2, 0] += 1
    assert (ids == from_arrays(features).table["image_id"]).tolist() == [True, True, False, True]


def test_npz_is_read(tmp_path):
    np.savez(tmp_path / "birds.npz", X=np.zeros((3, 2)), y=np.array(["owl", "crow", ""]))
    split, truth = load(tmp_path / "birds.npz")
    assert truth is None
    assert (split.name, split.class_names, split.labels.tolist()) == ("birds", ("crow", "owl"), [1, 0, -1])
    np.savez(tmp_path / "plain.npz", X=np.zeros((3, 2)))
    assert load(tmp_path / "plain.npz")[0].n_labelled == 0


def test_npz_that_cannot_be_used_says_why(tmp_path):
    path = tmp_path / "birds.npz"
    with pytest.raises(DataError, match="D01"):
        load(path)
    with pytest.raises(DataError, match="D01"):
        load(None)
    np.savez(path, x=np.zeros(3), labels=np.zeros(3))
    with pytest.raises(DataError, match=r"array 'X' not found.*\(found: x, labels\)"):
        load(path)
    np.savez(path, X=np.zeros((2, 2)), y=np.array(["owl", None], dtype=object))
    with pytest.raises(DataError, match="not as Python objects"):
        load(path)
    path.write_bytes(b"no zip")
    with pytest.raises(DataError, match="D17"):
        load(path)
    with path.open("wb") as file:
        np.save(file, np.zeros((2, 2)))
    with pytest.raises(DataError, match="D17"):
        load(path)
