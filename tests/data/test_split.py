import dataclasses

import numpy as np
import pandas as pd
import pytest

from nngcd.core.errors import DataError
from nngcd.core.seeds import numpy_generator
from nngcd.data.split import UNLABELLED, Problem, Split, Truth, draw_labelled, image_table, relabel


def make_split(**changes):
    values = {
        "name": "three",
        "images": None,
        "features_nvd": np.zeros((3, 1, 2), dtype=np.float32),
        "labels": np.array([0, 1, UNLABELLED]),
        "class_names": ("ab", "c"),
        "table": image_table(["1.png", "2.png", "3.png"], ["x", "y", "z"]),
    }
    return Split(**(values | changes))


def test_counts_and_flags_follow_the_labels():
    split = make_split()
    assert (len(split), split.n_old, split.n_labelled, split.n_unlabelled) == (3, 2, 2, 1)
    assert split.is_labelled.tolist() == [True, True, False]
    assert split.may_flip and split.n_classes is None and split.problems == ()


def test_a_split_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        make_split().name = "other"


def test_the_split_hash_is_stable_and_sees_every_part():
    fingerprint = make_split().fingerprint
    assert fingerprint == make_split(name="renamed").fingerprint
    assert len(fingerprint) == 64
    others = [
        make_split(labels=np.array([1, 0, UNLABELLED])),
        make_split(class_names=("a", "bc")),
        make_split(table=image_table(["1.png", "2.png", "3.png"], ["x", "y", "changed"])),
        make_split(table=image_table(["1.png", "2.png", "moved.png"], ["x", "y", "z"])),
    ]
    assert len({fingerprint, *(split.fingerprint for split in others)}) == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features_nvd": None}, "either images or features"),
        ({"images": ["a", "b", "c"]}, "not both"),
        ({"features_nvd": np.zeros((3, 2), dtype=np.float32)}, r"\(n, views, d\)"),
        ({"features_nvd": np.zeros((3, 1, 2))}, "float64"),
        ({"features_nvd": np.zeros((4, 1, 2), dtype=np.float32)}, "4 images or features, 3 labels"),
        ({"labels": np.array([0, 2, -1])}, "between -1 and 1.*found 2"),
        ({"labels": np.array([0, -2, -1])}, "found -2"),
        ({"labels": np.array([0.0, 1.0, -1.0])}, "int64"),
        ({"labels": np.array([0, 1])}, "2 labels"),
        ({"n_classes": 1}, "2 old classes but n_classes = 1"),
        ({"table": pd.DataFrame({"image_id": ["a", "b", "c"]})}, "lacks file_name"),
        ({"table": image_table(["1", "1", "2"], ["x", "x", "x"])}, "same image_id"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(DataError, match=message):
        make_split(**changes)


def test_image_ids_depend_on_content_and_name_only():
    table = image_table(["a", "b", "a"], ["x", "x", "y"], split=["train", None, "test"])
    assert table["image_id"].is_unique
    assert table["image_id"][0] == image_table(["a"], ["x"])["image_id"][0]
    assert table["split"].isna().tolist() == [False, True, False]
    assert table["group"].isna().all()


def test_truth_knows_old_classes_by_their_number():
    truth = Truth(classes=np.array([0, 2, 1]), class_names=("a", "b", "c"), n_old=1)
    assert truth.is_old.tolist() == [True, False, False]
    with pytest.raises(DataError, match="found 3"):
        Truth(classes=np.array([3]), class_names=("a", "b", "c"), n_old=1)
    with pytest.raises(DataError, match="n_old = 4"):
        Truth(classes=np.array([0]), class_names=("a", "b", "c"), n_old=4)


def test_relabelling_puts_old_classes_first():
    classes, names = relabel(np.array([0, 1, 2, 3, 1]), ["a", "b", "c", "d"], old_classes=[3, 1])
    assert names == ("b", "d", "a", "c")
    assert classes.tolist() == [2, 0, 3, 1, 0]


def test_half_of_the_old_images_is_drawn_and_rounded_down():
    is_old = np.array([True, False] * 5 + [True] * 2)
    is_labelled = draw_labelled(is_old, generator=numpy_generator(0, "split"))
    assert is_labelled.sum() == 3
    assert not (is_labelled & ~is_old).any()
    assert (is_labelled == draw_labelled(is_old, generator=numpy_generator(0, "split"))).all()
    assert draw_labelled(is_old, generator=numpy_generator(0, "split"), fraction=1.0).tolist() == is_old.tolist()


def test_the_draw_is_pooled_over_classes():
    rng = np.random.default_rng(0)
    classes = np.repeat([0, 1], 50)
    counts = {draw_labelled(classes < 2, generator=rng)[:50].sum() for _ in range(20)}
    assert len(counts) > 1


def test_the_published_draw_is_repeated():
    np.random.seed(0)  # noqa: NPY002 (the field's code, word for word)
    expected = np.random.choice(range(301), replace=False, size=(int(0.5 * 301),))  # noqa: NPY002
    is_labelled = draw_labelled(np.ones(301, dtype=bool), generator=np.random.RandomState(0))
    assert np.flatnonzero(is_labelled).tolist() == sorted(expected.tolist())


def test_a_file_whose_label_alone_is_not_used_is_used():
    names = (("1.png", "D13"), ("broken.png", "D03"), ("an empty folder", "D29"))
    problems = tuple(Problem(name, code, "because") for name, code in names)
    assert make_split(problems=problems).n_not_used == 1
