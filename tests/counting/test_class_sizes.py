from __future__ import annotations

import numpy as np
import pytest
import torch

from nngcd.clustering.whitening import main_directions
from nngcd.counting.class_sizes import NeighbourCounts, count_neighbours, halves, mean_class_size


def test_mean_class_size_by_hand():
    # Two labelled classes, each with 3 of its images counted. An image has 1 of its 2 labelled mates among its 4
    # neighbours and 1 of the 3 others in 10: R = 1/2, Q = 1/30. Of 31 images, n - 1 = (4 - 30/30) / (1/2 - 1/30).
    near_cc = np.array([[3.0, 0.3], [0.3, 3.0]])
    found = NeighbourCounts(4, near_cc, np.full(2, 3.0), np.full(2, 2.0), 31)
    # Two more images of each class were seen by the whitening.
    assert mean_class_size(found, np.ones((1, 2)))[0] == pytest.approx(1 + 3 / (1 / 2 - 1 / 30) + 2)


def test_classes_that_are_no_nearer_to_themselves_tell_nothing():
    found = NeighbourCounts(4, np.array([[0.5, 1.0], [1.0, 0.5]]), np.full(2, 2.0), np.zeros(2), 31)
    assert np.isnan(mean_class_size(found, np.ones((1, 2)))[0])


def test_halves_are_of_every_class_and_small_classes_are_never_seen():
    class_n = np.array([0] * 7 + [1] * 3 + [2] * 4 + [-1] * 5)
    half_n = halves(class_n, np.random.default_rng(0))
    assert [np.bincount(half_n[class_n == class_]).tolist() for class_ in (0, 2)] in (
        [[4, 3], [2, 2]],
        [[3, 4], [2, 2]],
    )
    assert (half_n[(class_n == 1) | (class_n < 0)] == -1).all()


@pytest.mark.parametrize("n_labelled", [6, 15])
def test_sizes_are_right_where_the_whitening_has_seen_few_labels(n_labelled):
    """Counted with the labelled images that the whitening has seen, these classes of 30 would seem a third smaller."""
    sizes = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        truth = np.repeat(np.arange(20), 30)
        x = 0.6 * rng.normal(size=(20, 64))[truth] + rng.normal(size=(600, 64))
        label = np.where((truth < 15) & (np.arange(600) % 30 < n_labelled), truth, -1)
        counted = count_neighbours(main_directions(torch.from_numpy(x)).float(), label, rng)
        sizes.append(np.nanmedian([mean_class_size(found, np.ones((1, 15)))[0] for found in counted]))
    assert np.mean(sizes) == pytest.approx(30, rel=0.15)
