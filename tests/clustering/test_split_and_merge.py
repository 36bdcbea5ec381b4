"""Splits and merges keep the number of clusters, and free the centre that is least needed."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from nngcd.clustering.hidden_parts import HiddenPart
from nngcd.clustering.split_and_merge import cheapest_merge, split_and_merge, split_gain

N_FEATURES = 16


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


def blob(centre, n, generator, spread=0.05):
    return F.normalize(centre + spread * torch.randn(n, N_FEATURES, generator=generator), dim=-1)


@pytest.fixture
def swallowed(generator):
    """Known classes 0 and 1 of 30 images; 20 that cluster 0 swallowed; 40 of one kind in clusters 2 and 3."""
    axes = torch.eye(N_FEATURES)
    near = F.normalize(axes[0] + 0.5 * axes[2], dim=0)
    blobs = [(axes[0], 30), (near, 20), (axes[1], 30), (axes[3], 40)]
    unit_nd = torch.cat([blob(centre, n, generator) for centre, n in blobs])
    labels_n = torch.full((120,), -1)
    labels_n[:15], labels_n[50:65] = 0, 1
    return unit_nd, torch.tensor([0] * 50 + [1] * 30 + [2] * 21 + [3] * 19), labels_n


def move(unit_nd, cluster_n, labels_n, n_clusters=4):
    return split_and_merge(unit_nd, unit_nd, cluster_n, labels_n, n_old=2, n_clusters=n_clusters, level=0.05)


def test_a_swallowed_category_gets_the_cluster_that_another_can_do_without(swallowed):
    moved = move(*swallowed)
    assert moved.cluster_n.tolist() == [0] * 30 + [3] * 20 + [1] * 30 + [2] * 40
    assert moved.cluster_m.tolist() == [0, 2, 3]
    assert [part.cluster for part in moved.splits] == [0]


def test_what_was_given_is_left_as_it_was(swallowed):
    before_n = swallowed[1].clone()
    move(*swallowed)
    assert torch.equal(swallowed[1], before_n)


def test_one_new_cluster_cannot_be_merged(swallowed):
    unit_nd, cluster_n, labels_n = swallowed
    moved = move(unit_nd, cluster_n.clamp_max(2), labels_n, n_clusters=3)
    assert moved.splits == [] and len(moved.cluster_m) == 0


def test_nothing_is_moved_where_the_merge_costs_far_more_than_the_split_gains(swallowed):
    unit_nd, cluster_n, labels_n = swallowed
    unit_nd = unit_nd.clone()
    unit_nd[101:] = unit_nd[101:].roll(1, dims=1)  # the new category that had two clusters is two categories
    assert move(unit_nd, cluster_n, labels_n).splits == []


def test_each_part_gets_a_cluster_that_is_not_merged_away_again(swallowed, monkeypatch):
    parts = [HiddenPart(0, torch.arange(30 + 10 * i, 40 + 10 * i), 10, 50, 0, 15, 1e-6) for i in range(2)]
    monkeypatch.setattr("nngcd.clustering.split_and_merge.hidden_parts", lambda *_, **__: parts)
    # There is one cluster to be had, so only the more certain part gets one.
    assert len(move(*swallowed).splits) == 1


def test_the_cheapest_merge_is_of_what_is_alike_and_small(generator):
    axes = torch.eye(N_FEATURES)
    close = F.normalize(axes[3] + 0.1 * axes[4], dim=0)
    unit_nd = torch.cat(
        [blob(axes[k], 10, generator) for k in (0, 1)] + [blob(axes[3], 9, generator), blob(close, 5, generator)]
    )
    cluster_n = torch.tensor([0] * 10 + [1] * 10 + [2] * 9 + [3] * 5)
    merge = cheapest_merge(unit_nd, cluster_n, torch.tensor([1, 2, 3]))
    assert merge[:2] == (2, 3)
    # What it costs to merge two clusters is what it gains to split them again.
    assert merge.cost == pytest.approx(split_gain(unit_nd[cluster_n == 2], unit_nd[cluster_n == 3]), rel=1e-3)
    # An empty cluster costs nothing.
    assert cheapest_merge(unit_nd, cluster_n, torch.tensor([1, 2, 3, 4])).freed == 4


def move_freely(unit_nd, cluster_n, labels_n, k_range, n_clusters=4):
    return split_and_merge(
        unit_nd, unit_nd, cluster_n, labels_n, n_old=2, n_clusters=n_clusters, level=0.05, k_range=k_range
    )


@pytest.fixture
def distinct(swallowed):
    """The same, and what had two clusters is two categories: nothing can be merged."""
    unit_nd, cluster_n, labels_n = swallowed
    unit_nd = unit_nd.clone()
    unit_nd[101:] = unit_nd[101:].roll(1, dims=1)
    return unit_nd, cluster_n, labels_n


def test_a_split_adds_a_cluster_where_there_may_be_more_and_nothing_is_one(distinct):
    moved = move_freely(*distinct, (3, 6))
    assert moved.n_clusters == 5 and len(moved.splits) == 1 and moved.merges == []
    assert moved.cluster_n.tolist() == [0] * 30 + [4] * 20 + [1] * 30 + [2] * 21 + [3] * 19
    assert moved.cluster_m.tolist() == [0, 4]


def test_no_cluster_is_added_above_the_interval(distinct):
    moved = move_freely(*distinct, (3, 4))
    assert moved.n_clusters == 4 and moved.splits == []


def test_clusters_that_are_one_thing_become_one_without_a_split(swallowed):
    unit_nd, cluster_n, labels_n = swallowed
    labels_n = labels_n.clone()
    labels_n[30:40] = 0  # the other form of the first category is labelled as well
    moved = move_freely(unit_nd, cluster_n, labels_n, (3, 6))
    assert moved.n_clusters == 3 and moved.splits == []
    assert moved.cluster_n.tolist() == [0] * 50 + [1] * 30 + [2] * 40
    (merge,) = moved.merges
    assert (merge.n_kept, merge.n_freed) == (21, 19) and merge.cost <= moved.limit


def test_no_cluster_is_merged_below_the_interval(swallowed):
    unit_nd, cluster_n, labels_n = swallowed
    labels_n = labels_n.clone()
    labels_n[30:40] = 0
    assert move_freely(unit_nd, cluster_n, labels_n, (4, 6)).n_clusters == 4


def test_a_merge_that_is_due_pays_for_a_split(swallowed):
    moved = move_freely(*swallowed, (3, 6))
    assert moved.n_clusters == 4 and len(moved.splits) == len(moved.merges) == 1


def test_clusters_are_numbered_without_gaps(distinct):
    unit_nd, cluster_n, labels_n = distinct
    cluster_n = cluster_n.clone()
    cluster_n[cluster_n == 2], cluster_n[cluster_n == 3] = 4, 2  # cluster 3 is empty, and the last one is moved there
    moved = move_freely(unit_nd, cluster_n, torch.where(labels_n >= 0, labels_n, -1), (3, 5), n_clusters=5)
    assert sorted(moved.cluster_n.unique().tolist()) == list(range(moved.n_clusters))


def test_without_a_label_only_clusters_without_images_go(swallowed):
    unit_nd, cluster_n, labels_n = swallowed
    moved = split_and_merge(
        unit_nd, unit_nd, cluster_n, torch.full_like(labels_n, -1), n_old=0, n_clusters=6, level=0.2, k_range=(2, 9)
    )
    assert moved.n_clusters == 4 and torch.equal(moved.cluster_n, cluster_n)
    assert [merge.n_freed for merge in moved.merges] == [0, 0]


@pytest.fixture
def two_in_one(swallowed):
    """Nothing hides in known clusters; cluster 2 is two categories, and clusters 3 and 4 are one."""
    unit_nd, cluster_n, labels_n = (t.clone() for t in swallowed)
    labels_n[30:40] = 0
    unit_nd[80:101] = unit_nd[80:101].roll(2, dims=1)
    unit_nd[91:101] = unit_nd[91:101].roll(3, dims=1)
    cluster_n[110:] = 4
    return unit_nd, cluster_n, labels_n


def test_a_new_cluster_that_is_two_things_takes_that_of_two_that_are_one(two_in_one):
    moved = move(*two_in_one, n_clusters=5)
    assert moved.n_clusters == 5 and moved.splits == []
    (cut,), (merge,) = moved.cuts, moved.merges
    assert cut.cluster == 2 and cut.n_images == 21 and cut.gain > moved.limit >= merge.cost
    assert len({*moved.cluster_n[80:91].tolist()}) == len({*moved.cluster_n[91:101].tolist()}) == 1
    assert len(moved.cluster_n[80:].unique()) == 3


def test_a_new_cluster_that_is_two_things_stays_one_where_no_other_can_be_had(two_in_one):
    unit_nd, cluster_n, labels_n = two_in_one
    moved = move(unit_nd, cluster_n.clamp_max(3), labels_n)
    assert moved.cuts == moved.merges == [] and torch.equal(moved.cluster_n, cluster_n.clamp_max(3))


def test_a_new_cluster_that_is_two_things_becomes_two_where_there_may_be_more(two_in_one):
    unit_nd, cluster_n, labels_n = two_in_one
    assert move_freely(unit_nd, cluster_n.clamp_max(3), labels_n, (4, 5)).n_clusters == 5
