from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch

from nngcd.clustering import neighbour_links
from nngcd.clustering.snc import cluster, merge_closest, partitions
from nngcd.core.errors import ConfigError, DataError
from nngcd.metrics.accuracy import split_accuracy

FREE = -1


def at(*degrees):
    """Unit features in the plane: the nearest is the one with the nearest angle."""
    angle = np.radians(degrees)
    return np.stack([np.cos(angle), np.sin(angle)], 1)


def unlabelled(x):
    return np.full(len(x), FREE)


def draw(seed, *, n_classes=8, n_images=20, spread=0.6):
    """Overlapping classes in random order, half of them with half of their images labelled."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.repeat(np.arange(n_classes), n_images))
    x = rng.normal(size=(n_classes, 10))[truth] + spread * rng.normal(size=(len(truth), 10))
    return x, np.where((truth < n_classes // 2) & (rng.random(len(truth)) < 0.5), truth, FREE), truth


def as_sets(ids):
    return {frozenset(np.flatnonzero(ids == k).tolist()) for k in np.unique(ids)}


def listed(levels):
    return [level.tolist() for level in levels]


def is_pure(ids, labels):
    return all(len(set(labels[(ids == k) & (labels >= 0)])) <= 1 for k in np.unique(ids))


def is_numbered(ids):
    return set(ids.tolist()) == set(range(ids.max() + 1))


def test_unlabelled_images_follow_their_nearest_neighbour():
    # 0 <-> 5, 20 <-> 26, 90 -> 26; the two clusters then make a single one, which is left out.
    x = at(0, 5, 20, 26, 90)
    assert listed(partitions(x, unlabelled(x))) == [[0, 0, 1, 1, 1]]


def test_labelled_images_make_chains_of_the_root_of_their_number():
    # Class 0 has four: chains of two. 45 is farthest from their mean, its nearest is 25; 0 and 10 are left.
    # Class 1 has two, and one chain. Level 1 makes one chain of the two of class 0, 30 apart and so below 40;
    # then nothing can change.
    x, labels = at(25, 45, 0, 10, 180, 220), np.array([0, 0, 0, 0, 1, 1])
    assert listed(partitions(x, labels)) == [[0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 1, 1]]


def test_a_chain_takes_the_nearest_first():
    # Nine of a class: chains of three. From 100, the farthest from the mean: 90, 70. From 0: 2, 5. Then 20, 22, 30.
    x, labels = at(0, 20, 2, 22, 5, 30, 70, 90, 100), np.zeros(9, dtype=int)
    assert as_sets(partitions(x, labels)[0]) == {frozenset({8, 7, 6}), frozenset({0, 2, 4}), frozenset({1, 3, 5})}


def test_labelled_images_point_to_their_class_only_however_near_others_are():
    # 1 lies beside an image of the other class and beside an unlabelled one, which follows the nearest of all.
    x, labels = at(0, 1, 60, 61, 1.2), np.array([0, 1, 0, 1, FREE])
    assert listed(partitions(x, labels)) == [[0, 1, 0, 1, 1]]


def test_links_longer_than_the_longest_of_level_0_are_cut():
    # The longest link is that of 180 and 240. Clusters at 0.5 and 40.5 are nearer than that, 210 is not.
    x = at(0, 1, 40, 41, 180, 240)
    assert listed(partitions(x, unlabelled(x))) == [[0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 1, 1]]


def test_the_closest_two_are_merged_one_pair_at_a_time():
    x = at(0, 10, 30, 31)
    found = list(merge_closest(x, unlabelled(x), np.arange(4)))
    assert listed(found) == [[0, 1, 2, 2], [0, 0, 1, 1], [0, 0, 0, 0]]


def test_two_labelled_classes_are_never_merged():
    # 30 and 31 are closest but of two classes; so 0 and 10 come first, then their mean joins 30.
    x, labels = at(0, 10, 30, 31), np.array([FREE, FREE, 0, 1])
    assert listed(merge_closest(x, labels, np.arange(4))) == [[0, 0, 1, 2], [0, 0, 0, 1]]


def test_a_merged_cluster_is_where_the_mean_of_its_images_is():
    # Three images at 0 and one at 40 have their mean near 9.7: 28 is 18 away from it, and 20 from 48.
    x = at(0, 0, 0, 40, 28, 48)
    found = next(merge_closest(x, unlabelled(x), np.array([0, 0, 0, 0, 1, 2])))
    assert found.tolist() == [0, 0, 0, 0, 0, 1]


def slow_levels(x, labels):
    """The rules in plain Python, with the links between all that point to one place that the authors' code adds."""
    levels, groups, limit = [], [[i] for i in range(len(x))], math.inf
    while True:
        means = np.array([x[group].mean(0) for group in groups])
        unit = means / np.linalg.norm(means, axis=1, keepdims=True)
        classes = [max(labels[group]) for group in groups]
        targets = slow_targets(unit, classes)
        if not levels:
            limit = max(1 - unit[i] @ unit[j] for i, j in enumerate(targets) if i != j)
        home = list(range(len(groups)))
        for i, j in combinations(range(len(groups)), 2):
            is_linked = targets[i] == j or targets[j] == i or targets[i] == targets[j]
            assert not (is_linked and classes[i] != classes[j] and min(classes[i], classes[j]) >= 0)
            if is_linked and 1 - unit[i] @ unit[j] <= limit + 1e-12:
                home = [home[i] if h == home[j] else h for h in home]
        merged = [[i for h, group in zip(home, groups, strict=True) if h == own for i in group] for own in set(home)]
        if levels and len(merged) in (1, len(groups)):
            return levels
        groups = merged
        levels.append({frozenset(group) for group in groups})


def slow_targets(unit, classes):
    targets = [
        max((j for j in range(len(unit)) if j != i), key=lambda j, i=i: unit[i] @ unit[j]) for i in range(len(unit))
    ]
    for class_ in set(classes) - {FREE}:
        left = [i for i, c in enumerate(classes) if c == class_]
        middle, length = unit[left].mean(0), math.ceil(math.sqrt(len(left)))
        while left:
            chain = [min(left, key=lambda i: unit[i] @ middle)]
            left.remove(chain[0])
            while left and len(chain) < length:
                chain.append(max(left, key=lambda i: unit[i] @ unit[chain[-1]]))
                left.remove(chain[-1])
            for here, following in pairwise([*chain, chain[-1]]):
                targets[here] = following
    return targets


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("spread", [0.3, 1.0])
def test_levels_agree_with_a_slow_reference(seed, spread):
    x, labels, _ = draw(seed, n_images=12, spread=spread)
    levels = partitions(x, labels)
    assert len(levels) >= 2
    assert [as_sets(level) for level in levels] == slow_levels(x, labels)


@pytest.mark.parametrize("seed", range(3))
def test_merging_agrees_with_a_slow_reference(seed):
    x, labels, _ = draw(seed, n_images=8, spread=1.0)
    groups = sorted(map(sorted, as_sets(partitions(x, labels)[0])))
    for found in merge_closest(x, labels, partitions(x, labels)[0]):
        mean = [x[group].mean(0) / np.linalg.norm(x[group].mean(0)) for group in groups]
        class_ = [labels[group].max() for group in groups]
        allowed = [
            (i, j)
            for i, j in combinations(range(len(groups)), 2)
            if class_[i] == class_[j] or min(class_[i], class_[j]) == FREE
        ]
        i, j = max(allowed, key=lambda pair: mean[pair[0]] @ mean[pair[1]])
        groups = [*(group for k, group in enumerate(groups) if k not in (i, j)), groups[i] + groups[j]]
        assert as_sets(found) == {frozenset(group) for group in groups}
    assert len(groups) == labels.max() + 1


@pytest.mark.parametrize("seed", range(5))
def test_levels_are_nested_pure_and_numbered(seed):
    x, labels, _ = draw(seed)
    levels = partitions(x, labels)
    assert all(is_pure(level, labels) and is_numbered(level) for level in levels)
    for fine, coarse in pairwise(levels):
        assert coarse.max() < fine.max()
        assert all(any(part <= whole for whole in as_sets(coarse)) for part in as_sets(fine))


@pytest.mark.parametrize("seed", range(3))
def test_every_number_of_clusters_can_be_had(seed):
    x, labels, _ = draw(seed, n_images=8)
    for n_clusters in range(labels.max() + 1, len(x) + 1):
        found = cluster(x, labels, n_clusters)
        assert is_numbered(found)
        assert found.max() + 1 == n_clusters
        assert is_pure(found, labels)


@pytest.mark.parametrize("n_clusters", [4, 8, 30, 120])
def test_cluster_k_is_the_one_with_most_labelled_images_of_class_k(n_clusters):
    x, labels, _ = draw(0)
    found = cluster(x, labels, n_clusters)
    for class_ in range(4):
        assert np.bincount(found[labels == class_]).argmax() == class_
    assert set(found[(labels >= 0) & (found < 4)] - labels[(labels >= 0) & (found < 4)]) == {0}


def test_above_the_finest_level_the_shortest_links_come_first():
    x = at(0, 5, 20, 26, 90)
    assert as_sets(cluster(x, unlabelled(x), 4)) == {frozenset({0, 1}), frozenset({2}), frozenset({3}), frozenset({4})}
    assert as_sets(cluster(x, unlabelled(x), 3)) == {frozenset({0, 1}), frozenset({2, 3}), frozenset({4})}
    assert cluster(x, unlabelled(x), 5).tolist() == [0, 1, 2, 3, 4]


def test_well_separated_classes_are_found(blobs):
    x, labels, truth = blobs
    found = cluster(x, labels, 6)
    assert split_accuracy(truth, found, truth < 3).all == 1
    assert np.array_equal(found[truth < 3], truth[truth < 3])


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_images_is_no_matter(seed):
    x, labels, _ = draw(seed)
    order = np.random.default_rng(seed).permutation(len(x))
    for level, shuffled in zip(partitions(x, labels), partitions(x[order], labels[order]), strict=True):
        assert as_sets(level[order]) == as_sets(shuffled)
    assert as_sets(cluster(x, labels, 8)[order]) == as_sets(cluster(x[order], labels[order], 8))


def test_the_result_is_the_same_each_time_and_for_tensors_and_arrays():
    x, labels, _ = draw(0)
    first = cluster(x, labels, 8)
    assert np.array_equal(cluster(x, labels, 8), first)
    assert np.array_equal(cluster(torch.from_numpy(x), torch.from_numpy(labels), 8), first)


def test_the_scale_of_all_features_is_no_matter():
    x, labels, _ = draw(0)
    assert listed(partitions(x * 1000, labels)) == listed(partitions(x, labels))


def test_the_size_of_blocks_changes_nothing(monkeypatch):
    x, labels, _ = draw(0)
    levels, found = partitions(x, labels), cluster(x, labels, 8)
    monkeypatch.setattr(neighbour_links, "MAX_CELLS", 100)
    assert listed(partitions(x, labels)) == listed(levels)
    assert np.array_equal(cluster(x, labels, 8), found)


def test_many_images_need_no_table_of_all_pairs(monkeypatch):
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(10_000, 4)).astype(np.float32))
    labels = np.where(np.arange(10_000) % 4 == 0, np.arange(10_000) % 100 // 4, FREE)
    monkeypatch.setattr(neighbour_links, "MAX_CELLS", 2**20)
    largest, matmul = [], torch.Tensor.__matmul__
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: largest.append(len(a) * b.shape[1]) or matmul(a, b))
    assert is_pure(partitions(x, labels)[-1], labels)
    assert max(largest) <= 2**20


def test_no_labels_at_all():
    x, _, truth = draw(0, spread=0.2)
    assert split_accuracy(truth, cluster(x, unlabelled(x), 8), truth < 4).all == 1
    assert cluster(x, unlabelled(x), 1).tolist() == [0] * len(x)


def test_all_labelled():
    x, _, truth = draw(0)
    assert partitions(x, truth)[-1].max() + 1 == 8
    assert np.array_equal(cluster(x, truth, 8), truth)


@pytest.mark.parametrize("label", [FREE, 0])
def test_one_image(label):
    assert listed(partitions(np.ones((1, 3)), np.array([label]))) == [[0]]
    assert cluster(np.ones((1, 3)), np.array([label]), 1).tolist() == [0]
    assert not list(merge_closest(np.ones((1, 3)), np.array([label]), np.array([0])))


def test_equal_images():
    x, labels = np.ones((6, 3)), np.array([0, 1, FREE, FREE, FREE, FREE])
    assert is_pure(partitions(x, labels)[-1], labels)
    for n_clusters in range(2, 7):
        found = cluster(x, labels, n_clusters)
        assert (found.max() + 1, found[0], found[1]) == (n_clusters, 0, 1)


def test_images_without_a_direction():
    x, labels, _ = draw(0, n_images=8)
    x[[0, 5, 9]] = 0
    for values in (x, np.zeros_like(x)):
        assert all(is_pure(level, labels) and is_numbered(level) for level in partitions(values, labels))
        for n_clusters in (4, 8, 30):
            assert cluster(values, labels, n_clusters).max() + 1 == n_clusters


def test_opposite_images_that_cancel_out():
    x = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    found = list(merge_closest(x, unlabelled(x), np.array([0, 0, 1, 2])))
    assert [level.max() + 1 for level in found] == [2, 1]


def test_labels_may_leave_classes_out_of_a_hierarchy_but_not_out_of_k_clusters():
    x, labels, _ = draw(0)
    gap = np.where(labels == 1, FREE, labels)
    assert all(is_pure(level, gap) for level in partitions(x, gap))
    with pytest.raises(DataError, match="class 1 has no labelled row"):
        cluster(x, gap, 8)
    with pytest.raises(DataError, match="class 2 has no labelled row"):
        cluster(x, np.where(labels == 2, 10**12, labels), 8)


@pytest.mark.parametrize(
    ("n_clusters", "way_out"),
    [(3, "at least 4: 4 classes are labelled"), (0, "at least 4"), (161, "must not exceed the 160 images")],
)
def test_numbers_of_clusters_that_cannot_be(n_clusters, way_out):
    x, labels, _ = draw(0)
    with pytest.raises(ConfigError, match=rf"n_clusters = {n_clusters}: .*{way_out}"):
        cluster(x, labels, n_clusters)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_features_must_be_finite(bad):
    x, labels, _ = draw(0)
    x[3, 2] = bad
    for call in (lambda: partitions(x, labels), lambda: cluster(x, labels, 8)):
        with pytest.raises(DataError, match="NaN or infinite"):
            call()


@pytest.mark.parametrize(
    ("labels", "what"),
    [
        (np.zeros(2, dtype=int), r"must be 3 integers.*got int64 of shape \(2,\)"),
        (np.zeros(3), "float64"),
        (np.array([0, -2, 1]), "got -2"),
    ],
)
def test_labels_must_fit(labels, what):
    with pytest.raises(DataError, match=what):
        partitions(at(0, 1, 2), labels)


def test_merging_starts_from_a_partition_that_fits():
    x, labels = at(0, 1, 2), np.array([0, 1, FREE])
    with pytest.raises(DataError, match=r"each of 3 images, got \(2,\)"):
        next(merge_closest(x, labels, np.array([0, 1])))
    with pytest.raises(DataError, match="cluster 7 holds labelled images of two classes"):
        next(merge_closest(x, labels, np.array([7, 7, 9])))
