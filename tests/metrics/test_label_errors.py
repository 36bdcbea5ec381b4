from __future__ import annotations

import numpy as np

from nngcd.metrics.label_errors import _left_out_likeness, possible_label_errors


def three_groups(rng, n=20):
    centres = np.eye(3, 8) * 4
    classes = np.repeat(np.arange(3), n)
    return (centres[classes] + rng.normal(size=(3 * n, 8)) * 0.5).astype(np.float32), classes


def test_wrong_labels_are_found_and_right_ones_left_alone(rng):
    features, classes = three_groups(rng)
    labels = classes.copy()
    wrong = [3, 25, 41]
    labels[wrong] = (labels[wrong] + 1) % 3
    labels[[10, 30]] = -1
    assert np.flatnonzero(possible_label_errors(features, labels)).tolist() == wrong


def test_a_category_with_one_image_is_not_judged(rng):
    features, classes = three_groups(rng)
    labels = np.where(classes == 2, -1, classes)
    labels[45] = 2
    assert not possible_label_errors(features, labels).any()


def test_with_fewer_than_two_categories_there_is_nothing_to_confuse(rng):
    features, classes = three_groups(rng)
    assert not possible_label_errors(features, np.where(classes == 0, 0, -1)).any()
    assert not possible_label_errors(features, np.full(60, -1)).any()


def test_an_image_is_left_out_of_the_mean_of_its_own_category(rng):
    features, labels = rng.normal(size=(12, 5)).astype(np.float32), np.repeat(np.arange(3), 4)
    likeness = _left_out_likeness(features, labels, 3)
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    for image in range(12):
        for category in range(3):
            others = unit[(labels == category) & (np.arange(12) != image)].sum(0)
            assert abs(likeness[image, category] - unit[image] @ others / np.linalg.norm(others)) < 1e-5
