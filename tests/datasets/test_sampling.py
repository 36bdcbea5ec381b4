import dataclasses

import numpy as np

from nngcd.datasets import open_dataset
from nngcd.datasets.reading import Config
from nngcd.datasets.sampling import some_of


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


def test_it_is_a_setting_of_reading():
    assert len(open_dataset("digits", reading=Config(n_images=25))[0]) == 25
