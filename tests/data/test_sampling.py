import dataclasses

import numpy as np
import pytest

from nngcd.core.errors import ConfigError
from nngcd.data.reading_settings import ReadingSettings
from nngcd.data.sampling import fewer_labels, labelled_and_some, long_tail, some_of
from nngcd.datasets.opening import open_dataset


def test_some_images_keep_their_labels_names_and_truth():
    split, truth = open_dataset("digits")
    some, some_truth = some_of(split, truth, 40)
    assert len(some) == len(some_truth.classes) == 40
    place = {name: row for row, name in enumerate(split.table["file_name"])}
    rows = [place[name] for name in some.table["file_name"]]
    assert np.array_equal(some.labels, split.labels[rows])
    assert np.array_equal(some_truth.classes, truth.classes[rows])
    assert [some.images.fingerprint(i) for i in range(40)] == [split.images.fingerprint(row) for row in rows]
    assert np.array_equal(np.asarray(some.images.open(7)), np.asarray(split.images.open(rows[7])))


def test_every_old_class_keeps_a_label_and_every_category_can_have_an_image():
    split, truth = open_dataset("digits")
    some, _ = some_of(split, truth, 1)
    assert len(some) == 10
    assert set(some.labels) >= set(range(5))


def test_the_choice_is_the_same_every_time_and_all_images_stay_all():
    split, truth = open_dataset("digits")
    assert some_of(split, truth, 50)[0].fingerprint == some_of(split, None, 50)[0].fingerprint
    assert some_of(split, truth, 10_000) == (split, truth)


def test_features_can_be_sampled_too():
    split, _ = open_dataset("digits")
    features = np.random.default_rng(0).normal(size=(len(split), 1, 4)).astype(np.float32)
    some, no_truth = some_of(dataclasses.replace(split, images=None, features_nvd=features), None, 30)
    assert some.features_nvd.shape == (30, 1, 4)
    assert no_truth is None


def test_a_sample_of_labelled_images_only_is_refused():
    split, truth = open_dataset("digits")
    with pytest.raises(ConfigError, match=f"must be more than the {split.n_labelled:,} labelled images"):
        labelled_and_some(split, truth, split.n_labelled)
    assert len(labelled_and_some(split, truth, split.n_labelled + 1)[0]) == split.n_labelled + 1


def test_it_is_a_setting_of_reading():
    assert len(open_dataset("digits", reading=ReadingSettings(n_images=25))[0]) == 25


def test_fewer_labels_leave_some_of_each_class_and_all_images():
    split, _ = open_dataset("digits", dataset="digits")
    few = fewer_labels(split, 5)
    assert np.bincount(few.labels[few.is_labelled]).tolist() == [5] * 5
    assert len(few) == len(split)
    kept = few.is_labelled
    assert (few.labels[kept] == split.labels[kept]).all()
    assert fewer_labels(split, 10_000).fingerprint == split.fingerprint


def test_a_long_tail_thins_the_classes_out_exponentially():
    split, truth = open_dataset("digits", dataset="digits")
    tail, its_truth = long_tail(split, truth, 10)
    shares = np.bincount(its_truth.classes) / np.bincount(truth.classes)
    assert sorted(shares) == pytest.approx(10 ** -(np.arange(9, -1, -1) / 9), abs=0.02)
    assert shares.max() == 1
    # An image keeps its label and its true class.
    place = {name: row for row, name in enumerate(split.table["image_id"])}
    rows = [place[name] for name in tail.table["image_id"]]
    assert (truth.classes[rows] == its_truth.classes).all()
    assert (split.labels[rows] == tail.labels).all()
    labelled = np.bincount(tail.labels[tail.is_labelled]) / np.bincount(split.labels[split.is_labelled])
    assert labelled == pytest.approx(shares[:5], abs=0.02)


def test_a_long_tail_needs_the_truth(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.ones((6, 3), dtype=np.float32), y=np.array([0, 0, 1, 1, -1, -1]))
    with pytest.raises(ConfigError, match=r"reading.long_tail = 10.*not known"):
        open_dataset(str(tmp_path / "a.npz"), reading=ReadingSettings(long_tail=10))
