from itertools import permutations

import numpy as np
import pytest

from nngcd.metrics.matching import UNMATCHED, contingency, match_clusters


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def best_agreement(cluster, class_):
    """The most images any one-to-one naming of clusters gets right, by trying all of them."""
    size = int(max(cluster.max(), class_.max())) + 1
    return max(int((np.array(naming)[cluster] == class_).sum()) for naming in permutations(range(size)))


def test_contingency_counts_pairs():
    counts = contingency([0, 0, 2, 2, 2], [1, 1, 0, 1, 0])
    assert counts.tolist() == [[0, 2], [0, 0], [2, 1]]


def test_contingency_of_nothing_is_empty():
    assert contingency([], []).shape == (0, 0)
    assert match_clusters([], []).tolist() == []


@pytest.mark.parametrize(("n_clusters", "n_classes"), [(1, 1), (1, 6), (6, 1), (3, 5), (5, 3), (6, 6)])
def test_matching_is_the_best_of_all_permutations(rng, n_clusters, n_classes):
    for _ in range(20):
        cluster, class_ = rng.integers(0, n_clusters, 30), rng.integers(0, n_classes, 30)
        match = match_clusters(cluster, class_)
        assert (match[cluster] == class_).sum() == best_agreement(cluster, class_)


def test_matching_is_one_to_one(rng):
    cluster, class_ = rng.integers(0, 9, 100), rng.integers(0, 4, 100)
    match = match_clusters(cluster, class_)
    used = match[match != UNMATCHED]
    assert sorted(used) == [0, 1, 2, 3]
    assert (match == UNMATCHED).sum() == 5


def test_empty_clusters_and_classes_stay_unmatched():
    assert match_clusters([3, 3, 1], [2, 2, 5]).tolist() == [UNMATCHED, 5, UNMATCHED, 2]


def test_fewer_clusters_than_classes_take_the_largest():
    assert match_clusters([0, 0, 0], [4, 4, 1]).tolist() == [4]


@pytest.mark.parametrize(
    ("cluster", "class_", "message"),
    [
        ([0, 1], [0], "cluster has 2, class_ has 1"),
        ([0, -1], [0, 0], "cluster must not hold negative ids, got -1"),
        ([0, 0], [0, -3], "class_ must not hold negative ids, got -3"),
        ([0.0, 1.0], [0, 0], "cluster must hold integers"),
        ([[0, 1]], [0, 1], r"cluster must have one axis, got shape \(1, 2\)"),
    ],
)
def test_bad_ids_are_named(cluster, class_, message):
    with pytest.raises(ValueError, match=message):
        match_clusters(cluster, class_)


def test_ids_of_billions_are_refused_in_words():
    with pytest.raises(ValueError, match="number both 0, 1, 2"):
        match_clusters([0, 1, 2**40], [0, 1, 1])
