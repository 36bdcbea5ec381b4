from __future__ import annotations

import numpy as np
import pytest

from nngcd.results import map as map_module
from nngcd.results.map import beside_nearest, make_map, sample, within_unit_square

NONE = np.zeros(0, dtype=np.int64)


def test_a_sample_takes_one_of_each_category_in_turn():
    category_n = np.array([0, 0, 0, 0, 1, 2, 2])
    chosen = category_n[sample(category_n, NONE, 3)]
    assert sorted(chosen) == [0, 1, 2]
    chosen = category_n[sample(category_n, NONE, 5)]
    assert sorted(chosen) == [0, 0, 1, 2, 2]
    assert sample(category_n, NONE, 100).tolist() == list(range(7))


def test_wanted_rows_come_before_all_others():
    category_n = np.array([0, 0, 0, 1, 1])
    assert sample(category_n, np.array([1, 2]), 2).tolist() == [1, 2]


def test_further_images_are_put_beside_the_most_similar_ones():
    laid_out = np.eye(3, dtype=np.float32)
    places = np.array([[0, 0], [10, 0], [0, 10]], dtype=np.float32)
    others = np.array([[1, 0, 0], [0.6, 0.6, 0]], dtype=np.float32)
    assert beside_nearest(others, laid_out, places) == pytest.approx(np.array([[0, 0], [5, 0]]), abs=1e-3)


def test_places_fill_the_square_with_their_shape_kept():
    places = within_unit_square(np.array([[0.0, 0.0], [10.0, 5.0]]))
    assert places.tolist() == [[0.0, 0.25], [1.0, 0.75]]
    assert within_unit_square(np.ones((3, 2))).tolist() == [[0.5, 0.5]] * 3


def test_groups_stay_together_and_all_points_have_a_place(monkeypatch, blobs):
    features, _, classes = blobs
    monkeypatch.setattr(map_module, "MOST_LAID_OUT", 90)
    monkeypatch.setattr(map_module, "MOST_POINTS", 120)
    found = make_map(features, classes, np.array([0, 1]))
    assert len(found.rows) == 120
    assert found.n_laid_out == 90
    assert {0, 1} <= set(found.rows)
    assert found.places_n2.min() >= 0
    assert found.places_n2.max() <= 1
    centres = np.stack([found.places_n2[classes[found.rows] == c].mean(axis=0) for c in range(6)])
    nearest = np.linalg.norm(found.places_n2[:, None] - centres, axis=2).argmin(axis=1)
    assert (nearest == classes[found.rows]).mean() > 0.95


def test_few_or_equal_images_have_no_map():
    assert make_map(np.eye(4, dtype=np.float32), np.zeros(4, np.int64), NONE) is None
    assert make_map(np.ones((9, 3), dtype=np.float32), np.zeros(9, np.int64), NONE) is None
