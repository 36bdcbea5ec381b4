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
