from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from nngcd.clustering.mean_shift import (
    Partition,
    best_partition,
    cut,
    labelled_accuracy,
    numbered_by_class,
    shift,
    ward_partition,
)


@pytest.mark.parametrize(
    ("accuracies", "kept", "n_seen"),
    [
        ([0.5, 0.6, 0.6, 0.55, 0.9], 2, 4),
        ([0.5, 0.4, 0.6, 0.5, 0.4], 2, 5),
        ([0.0, 0.0, 1.0], 1, 2),
        ([0.1, 0.2], 1, 2),
    ],
)
def test_when_mean_shift_stops_and_what_it_keeps(accuracies, kept, n_seen):
    seen = []

    def partitions():
        for i, accuracy in enumerate(accuracies):
            seen.append(i)
            yield Partition(np.array([i]), accuracy)

    assert best_partition(partitions(), most=20).cluster_n.tolist() == [kept]
    assert len(seen) == n_seen


def test_no_more_rounds_than_asked_for():
    endless = (Partition(np.array([i]), i / 100) for i in range(100))
    assert best_partition(endless, most=3).cluster_n.tolist() == [2]


def test_rows_move_towards_their_neighbours():
    angle_n = torch.tensor([0.0, 0.2, 1.5, 1.7])
    unit_nd = torch.stack([angle_n.cos(), angle_n.sin()], 1)
    moved_nd = shift(unit_nd, n_neighbours=1, step=0.5)
    assert torch.atan2(moved_nd[:, 1], moved_nd[:, 0]).tolist() == pytest.approx([0.1, 0.1, 1.6, 1.6])
    assert torch.equal(shift(unit_nd[:1], n_neighbours=1, step=0.5), unit_nd[:1])


def test_a_tree_is_cut_at_exactly_so_many_clusters_even_where_merges_tie():
    corners_nd = torch.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    for k in (1, 2, 3, 4):
        assert len(set(ward_partition(corners_nd, np.full(4, -1), [k]).cluster_n)) == k
    assert cut(np.empty((0, 4)), 1).tolist() == [0]


def test_the_number_of_clusters_that_suits_the_labels_is_taken():
    unit_nd = F.normalize(torch.tensor([[1.0, 0], [1, 0.1], [0, 1], [0.1, 1], [-1, 0], [-1, 0.1]]), dim=-1)
    labels_n = np.array([0, 0, 1, 1, -1, -1])
    for numbers, best in (([2, 3, 4, 5], 3), ([2, 4, 3], 4)):
        found = ward_partition(unit_nd, labels_n, numbers)
        assert len(set(found.cluster_n)) == best
        assert found.accuracy == 1
    assert labelled_accuracy(np.array([0, 0, 0, 0, 1, 1]), labels_n) == 0.5
    assert labelled_accuracy(np.array([0, 1]), np.array([-1, -1])) == 0


def test_clusters_have_the_numbers_of_their_classes():
    labels_n = np.array([-1, -1, 2, 2, 0, -1])
    assert numbered_by_class(np.array([0, 0, 1, 1, 2, 3]), labels_n).tolist() == [1, 1, 2, 2, 0, 3]
    assert numbered_by_class(np.array([1, 0]), np.array([-1, -1])).tolist() == [1, 0]
