import numpy as np
import pandas as pd
import pytest

from nngcd.core.errors import ConfigError, DataError
from nngcd.datasets import open_dataset
from nngcd.datasets.hiding import hide_classes
from nngcd.datasets.reading import Config
from nngcd.datasets.split import UNKNOWN, UNLABELLED, Split


def split_of(labels, n_old):
    labels = np.array(labels, dtype=np.int64)
    ids = [f"i{i}" for i in range(len(labels))]
    table = pd.DataFrame({"image_id": ids, "file_name": ids, "split": "train", "group": None})
    names = tuple("abcdefgh"[:n_old])
    features = np.zeros((len(labels), 1, 2), dtype=np.float32)
    return Split(
        name="toy", images=None, features_nvd=features, labels=labels, class_names=names, table=table, n_classes=12
    )


EIGHT = [c for c in range(8) for _ in range(10)] + [UNLABELLED] * 7


def test_a_quarter_of_the_classes_and_a_fifth_of_the_other_labels_are_hidden():
    split = split_of(EIGHT, 8)
    fewer, truth = hide_classes(split, 0.25, fold=0)
    assert fewer.n_old == truth.n_old == 6
    assert np.bincount(fewer.labels[fewer.labels >= 0]).tolist() == [8] * 6
    assert np.bincount(truth.classes[truth.is_known]).tolist() == [10] * 8
    hidden = ~fewer.is_labelled & truth.is_known
    assert (hidden & truth.is_old).sum() == 6 * 2
    assert (hidden & ~truth.is_old).sum() == 2 * 10
    assert fewer.n_classes == 12
    assert len(fewer) == len(split)


def test_the_truth_is_the_label_that_was_given_and_unknown_without_one():
    split = split_of(EIGHT, 8)
    fewer, truth = hide_classes(split, 0.25, fold=3)
    named = [None if c == UNKNOWN else truth.class_names[c] for c in truth.classes]
    assert named == [None if c == UNLABELLED else split.class_names[c] for c in split.labels]
    assert fewer.class_names == truth.class_names[: truth.n_old]
    kept = fewer.is_labelled
    assert (fewer.labels[kept] == truth.classes[kept]).all()


def test_four_folds_hide_every_class_once():
    hidden = [set(hide_classes(split_of(EIGHT, 8), 0.25, fold=fold)[1].class_names[6:]) for fold in range(4)]
    assert set.union(*hidden) == set("abcdefgh")
    assert sum(map(len, hidden)) == 8


def test_a_class_with_one_label_keeps_it():
    fewer, _ = hide_classes(split_of([0, 1, 2, 3], 4), 0.25, fold=0)
    assert sorted(fewer.labels[fewer.is_labelled]) == [0, 1, 2]


def test_one_class_cannot_be_hidden():
    with pytest.raises(DataError, match="at least 2 labelled categories, and toy has 1"):
        hide_classes(split_of([0, 0, -1], 1), 0.5, fold=0)


def test_the_truth_of_the_data_set_is_never_looked_at(monkeypatch):
    from nngcd.datasets import digits

    reading = Config(hide_classes=0.4, fold=1)
    split, truth = open_dataset("digits", dataset="digits", reading=reading)
    load = digits.load

    def without_truth(*args, **options):
        return load(*args, **options)[0], None

    monkeypatch.setattr(digits, "load", without_truth)
    again, same = open_dataset("digits", dataset="digits", reading=reading)
    assert again.fingerprint == split.fingerprint
    assert (same.classes == truth.classes).all()
    assert (split.n_old, truth.is_known.sum()) == (3, 450)


@pytest.mark.parametrize(("values", "name"), [({"hide_classes": 1.0}, "hide_classes"), ({"fold": -1}, "fold")])
def test_impossible_values_are_refused(values, name):
    with pytest.raises(ConfigError, match=f"reading.{name}"):
        Config(**values)
