from __future__ import annotations

import numpy as np
import pytest
import torch

from nngcd.counting.by_accuracy import merged_centres
from nngcd.counting.scores import (
    best_number,
    coarse_numbers,
    is_within_error,
    numbers_around,
    right_by_class,
)


def test_right_by_class_by_hand():
    # Cluster 0 stands for class 1, cluster 1 for class 0, whose third image is wrong; the last image has no label.
    right = right_by_class(np.array([1, 1, 0, 0, 0, 2]), np.array([0, 0, 0, 1, 1, -1]))
    assert right.tolist() == [2, 2]


def test_closest_clusters_are_merged_by_what_it_costs():
    # 0 and 1 are 1 apart: 1 * 1 / 2 * 1 = 0.5. Ten images at 5 and one at 5.7: 10 / 11 * 0.49 = 0.45, which is less.
    x = torch.tensor([[0.0], [1.0], *[[5.0]] * 10, [5.7]])
    cluster = np.array([0, 1, *[2] * 10, 3])
    three = sorted(merged_centres(x, cluster, 3).flatten().tolist())
    assert three == pytest.approx([0, 1, 5 + 0.7 / 11])
    two = sorted(merged_centres(x, cluster, 2).flatten().tolist())
    assert two == pytest.approx([0.5, 5 + 0.7 / 11])


def test_empty_clusters_are_not_centres():
    x = torch.tensor([[0.0], [1.0], [9.0]])
    assert sorted(merged_centres(x, np.array([0, 2, 4]), 3).flatten().tolist()) == [0, 1, 9]


def test_numbers_to_look_at():
    assert coarse_numbers(2, 32, 5) == [2, 4, 8, 16, 32]
    assert numbers_around(8, [2, 4, 8, 16], 20) == [5, 6, 7, 9, 10, 11, 12, 13, 14, 15]
    assert numbers_around(8, [2, 4, 8, 16], 3) == [5, 10, 15]
    assert numbers_around(16, [2, 4, 8, 16], 2) == [9, 15]
    assert numbers_around(3, [2, 3, 4], 5) == []


def test_of_equal_scores_the_middle_one():
    assert best_number({3: 0.5, 4: 1.0, 5: 1.0, 7: 1.0, 9: 0.2}) == 5
    assert best_number({3: 1.0, 4: 1.0}) == 3


def test_only_differences_count_in_the_interval():
    # All scores move together from sample to sample: the second one is surely worse. The third moves by itself.
    score = np.array([[0.9, 0.8, 0.85], [0.5, 0.4, 0.6], [0.7, 0.6, 0.6], [0.9, 0.8, 0.95]])
    assert is_within_error(score, 0, n_drawn=10).tolist() == [True, False, True]
