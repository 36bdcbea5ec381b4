import numpy as np
import pandas as pd
import pytest

from nngcd.core.errors import ConfigError, DataError
from nngcd.data.hiding import _hidden, hide_classes
from nngcd.data.reading_settings import ReadingSettings
from nngcd.data.split import UNLABELLED, Split
from nngcd.datasets.opening import open_dataset


def split_of(labels, n_old):
    labels = np.array(labels, dtype=np.int64)
    ids = [f"i{i}" for i in range(len(labels))]
    table = pd.DataFrame({"image_id": ids, "file_name": ids, "split": "train", "group": None})
    names = tuple("abcdefgh"[:n_old])
    features = np.arange(2 * len(labels), dtype=np.float32).reshape(-1, 1, 2)
    return Split(
        name="toy", images=None, features_nvd=features, labels=labels, class_names=names, table=table, n_classes=12
    )


# Unlabelled images lie between the labelled ones.
EIGHT = [c for c in range(8) for _ in range(10)]
EIGHT[5:5] = [UNLABELLED] * 7


def hidden_names(n_old, share, fold):
    miniature, truth = hide_classes(split_of(EIGHT[: 7 + 10 * n_old], n_old), share, fold=fold)
    return set(truth.class_names[miniature.n_old :])


def test_half_of_the_classes_and_half_of_the_other_labels_are_hidden():
    split = split_of(EIGHT, 8)
    miniature, truth = hide_classes(split, 0.5, fold=0)
    assert miniature.n_old == truth.n_old == 4
    assert np.bincount(miniature.labels[miniature.is_labelled]).tolist() == [5] * 4
    assert np.bincount(truth.classes).tolist() == [10] * 8
    assert (~miniature.is_labelled & truth.is_old).sum() == 4 * 5
    assert (~miniature.is_labelled & ~truth.is_old).sum() == 4 * 10


def test_unlabelled_images_are_left_out_and_the_number_of_classes_is_known():
    split = split_of(EIGHT, 8)
    miniature, truth = hide_classes(split, 0.5, fold=0)
    assert miniature.table["image_id"].tolist() == [f"i{i}" for i in range(87) if not 5 <= i < 12]
    assert (miniature.features_nvd == split.features_nvd[split.is_labelled]).all()
    assert truth.is_known.all()
    assert miniature.n_classes == len(truth.class_names) == 8


def test_the_truth_is_the_label_that_was_given():
    split = split_of(EIGHT, 8)
    miniature, truth = hide_classes(split, 0.25, fold=3)
    assert [truth.class_names[c] for c in truth.classes] == [split.class_names[c] for c in split.labels if c >= 0]
    assert miniature.class_names == truth.class_names[: truth.n_old]
    kept = miniature.is_labelled
    assert (miniature.labels[kept] == truth.classes[kept]).all()


@pytest.mark.parametrize(("share", "n_folds"), [(0.25, 4), (0.5, 2)])
def test_consecutive_folds_hide_every_class_once(share, n_folds):
    for first in (0, n_folds):
        hidden = [hidden_names(8, share, fold) for fold in range(first, first + n_folds)]
        assert set.union(*hidden) == set("abcdefgh")
        assert sum(map(len, hidden)) == 8


def test_after_every_class_had_its_turn_they_are_drawn_anew_and_always_the_same():
    halves = [hidden_names(8, 0.5, fold) for fold in range(4)]
    assert halves[2] not in halves[:2]
    assert [hidden_names(8, 0.5, fold) for fold in range(4)] == halves


def test_two_folds_are_enough_for_halves_of_an_odd_number():
    first, second, third = (hidden_names(5, 0.5, fold) for fold in range(3))
    assert len(first) == len(second) == len(third) == 3
    assert first | second == set("abcde")


def test_a_share_that_gives_a_whole_number_is_not_rounded_up():
    """0.1 * 30 is 3.0000000000000004."""
    assert [len(_hidden(30, share, 0)) for share in (0.1, 0.5, 0.99)] == [3, 15, 29]


def test_a_class_with_one_label_keeps_it():
    miniature, _ = hide_classes(split_of([0, 1, 2, 3], 4), 0.25, fold=0)
    assert sorted(miniature.labels[miniature.is_labelled]) == [0, 1, 2]


def test_a_class_without_labelled_images_is_told():
    with pytest.raises(DataError, match="1 of the 3 known categories of toy have no labelled image, for example 'b'"):
        hide_classes(split_of([0, 2, -1], 3), 0.5, fold=0)


def test_one_class_cannot_be_hidden():
    with pytest.raises(DataError, match="at least 2 labelled categories, but toy has 1"):
        hide_classes(split_of([0, 0, -1], 1), 0.5, fold=0)


def test_the_truth_of_the_data_set_is_never_looked_at(monkeypatch):
    from nngcd.datasets import digits

    reading = ReadingSettings(hide_classes=0.4, fold=1)
    split, truth = open_dataset("digits", dataset="digits", reading=reading)
    load = digits.load

    def without_truth(*args, **options):
        return load(*args, **options)[0], None

    monkeypatch.setattr(digits, "load", without_truth)
    again, same = open_dataset("digits", dataset="digits", reading=reading)
    assert again.fingerprint == split.fingerprint
    assert (same.classes == truth.classes).all()
    assert (split.n_old, len(split), truth.is_known.sum()) == (3, 450, 450)


@pytest.mark.parametrize(("values", "name"), [({"hide_classes": 1.0}, "hide_classes"), ({"fold": -1}, "fold")])
def test_impossible_values_are_refused(values, name):
    with pytest.raises(ConfigError, match=f"reading.{name}"):
        ReadingSettings(**values)
