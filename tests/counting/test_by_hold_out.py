from __future__ import annotations

import numpy as np
import pytest

from nngcd.counting.by_hold_out import Score, held_out_classes, score_table


@pytest.mark.parametrize(
    ("n_old", "n_held", "n_hold_outs"), [(2, 1, 2), (3, 1, 3), (5, 2, 5), (10, 2, 5), (100, 20, 5)]
)
def test_how_many_classes_are_held_out(n_old, n_held, n_hold_outs):
    is_held = held_out_classes(n_old, np.random.default_rng(0))
    assert is_held.shape == (n_hold_outs, n_old)
    assert (is_held.sum(1) == n_held).all()
    assert is_held.any(0).all()


@pytest.mark.parametrize("n_old", [0, 1])
def test_one_class_cannot_be_held_out(n_old):
    assert len(held_out_classes(n_old, np.random.default_rng(0))) == 0


def test_score_by_hand():
    # Silhouettes 0.1, 0.3, 0.2 are 0, 1, 1/2 of their range; accuracies 0.5, 0.6, 0.9 are 0, 1/4, 1.
    one = {2: Score(0.1, 0.5), 3: Score(0.3, 0.6), 4: Score(0.2, 0.9)}
    numbers, score = score_table([one], np.ones((1, 1)))
    assert numbers == [2, 3, 4]
    np.testing.assert_allclose(score, [[0, 1 / 4, 1 / 2]])


def test_hold_outs_count_as_often_as_they_are_drawn():
    first = {2: Score(0.0, 0.0), 3: Score(1.0, 1.0), 4: Score(0.5, 0.5)}
    second = {2: Score(0.0, 0.0), 3: Score(0.5, 0.5), 4: Score(1.0, 1.0)}
    _, score = score_table([first, second], np.array([[1.0, 1], [2, 0], [0, 2]]))
    np.testing.assert_allclose(score, [[0, 1, 1], [0, 1, 1 / 4], [0, 1 / 4, 1]])


def test_a_measure_without_differences_says_nothing():
    _, score = score_table([{2: Score(0.2, 0.5), 3: Score(0.2, 0.7)}], np.ones((1, 1)))
    np.testing.assert_allclose(score, [[0, 1]])
