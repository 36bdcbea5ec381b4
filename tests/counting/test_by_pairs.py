from __future__ import annotations

import numpy as np
import pytest

from nngcd.counting.by_pairs import LEAST_ERROR, MEASURED, Evidence, combined, confidence_of_pairs, probability_of
from nngcd.counting.estimate_k import estimate_k


def blobs(seed, *, n_old, n_labelled=15, n_classes=20, tail_ratio=1.0):
    """Return features and labels of overlapping classes of 30, or of sizes that fall to 30 / tail_ratio."""
    rng = np.random.default_rng(seed)
    sizes = np.round(30 * tail_ratio ** -(rng.permutation(n_classes) / (n_classes - 1))).astype(int)
    truth = np.repeat(np.arange(n_classes), sizes)
    x = 0.8 * rng.normal(size=(n_classes, 32))[truth] + rng.normal(size=(len(truth), 32))
    place = np.concatenate([np.arange(size) for size in sizes])
    return x, np.where((truth < n_old) & (place < np.maximum(sizes[truth] * n_labelled / 30, 2)), truth, -1)


def test_evidence_counts_by_its_error():
    even = combined([Evidence(0.1, 0.02), Evidence(0.1, 0.02)])
    assert even.share == pytest.approx(0.1)
    assert even.error == pytest.approx(((0.02**2 + (LEAST_ERROR * 0.1) ** 2) / 2) ** 0.5)
    assert combined([Evidence(0.1, 0.001), Evidence(0.2, 0.5)]).share == pytest.approx(0.1, rel=0.01)


def test_evidence_that_disagrees_is_less_certain():
    # Equal weights up to the least error: the mean is off by half of the difference from both.
    assert combined([Evidence(0.1, 0.01), Evidence(0.2, 0.01)]).error > 0.04


def test_probability_is_highest_where_the_evidence_is_and_flat_without_any():
    k_j = np.arange(5, 50)
    assert k_j[probability_of(k_j, Evidence(1 / 20, 0.001), 9).argmax()] == 20
    flat_j = probability_of(k_j, Evidence(1 / 20, 1e6), 9)
    assert flat_j * k_j == pytest.approx(flat_j[0] * k_j[0])


@pytest.mark.parametrize("tail_ratio", [1.0, 10.0])
@pytest.mark.parametrize("n_labelled", [6, 15])
@pytest.mark.parametrize("n_old", [10, *(pytest.param(n_old, marks=pytest.mark.slow) for n_old in (15, 20))])
def test_intervals_of_overlapping_classes_hold_their_number(n_old, n_labelled, tail_ratio):
    found = [
        estimate_k(*blobs(seed, n_old=n_old, n_labelled=n_labelled, tail_ratio=tail_ratio), method="pairs")
        for seed in range(5)
    ]
    assert sum(each.low <= 20 <= each.high for each in found) >= 4


def test_where_all_classes_are_labelled_hardly_any_are_added():
    assert estimate_k(*blobs(0, n_old=20), method="pairs").k in (20, 21)


def test_good_is_said_only_of_sizes_that_were_measured():
    assert confidence_of_pairs(50, 46, 54, 25)[0] == "good"
    assert "of 10 test tasks" in confidence_of_pairs(50, 46, 54, 25)[1]
    most = MEASURED[1]
    assert confidence_of_pairs(most + 1, most - 9, most + 10, 100)[0] == "fair"
    assert confidence_of_pairs(50, 40, 60, 25)[0] == "fair"
    assert confidence_of_pairs(50, 20, 90, 25)[0] == "low"
    assert confidence_of_pairs(12, 11, 13, 9)[0] == "low"
