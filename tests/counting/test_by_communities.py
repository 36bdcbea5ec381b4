from __future__ import annotations

import numpy as np
import pytest
import torch

from nngcd.clustering.communities import communities
from nngcd.core.errors import ResourceError
from nngcd.counting import by_communities as k_by_communities
from nngcd.counting.by_communities import by_communities
from nngcd.counting.estimate_k import checked_method, estimate_k
from nngcd.counting.scores import CountingTask


def counted(monkeypatch, counts, *, n_old=3, first=3, last=30, is_range_given=False):
    monkeypatch.setattr(k_by_communities, "_counts", lambda task: np.array(counts))
    nothing = torch.zeros(0, 2), np.zeros(0, dtype=np.int64)
    return by_communities(CountingTask(*nothing, 200, n_old, first, last, is_range_given, 0, lambda done, total: None))


def test_k_is_the_median_and_the_interval_leaves_the_ends_out(monkeypatch):
    found = counted(monkeypatch, [14, 12, 11, 10, 10, 8, 8])
    assert (found.k, found.low, found.high, found.method, found.confidence) == (10, 8, 12, "communities", "low")
    assert not found.is_at_edge
    curve = dict(found.curve)
    assert list(curve) == [8, 9, 10, 11, 12, 13, 14]
    assert [round(7 * score) for score in curve.values()] == [2, 2, 4, 3, 2, 1, 1]


def test_counts_that_agree_are_trusted_a_little(monkeypatch):
    found = counted(monkeypatch, [10, 10, 10, 10, 10, 9, 9])
    assert (found.k, found.low, found.high, found.confidence) == (10, 9, 10, "fair")
    assert "9 to 10 communities of 5 or more images with 11 to 20 neighbours linked" in found.reason


def test_there_are_no_fewer_than_labelled_classes(monkeypatch):
    found = counted(monkeypatch, [2] * 7)
    assert (found.k, found.low, found.high, found.curve, found.confidence) == (3, 3, 3, ((3, 1.0),), "low")
    assert "fewer than the smallest possible number, 3" in found.reason


@pytest.mark.needs("infomap")
def test_a_given_range_is_kept_and_its_edge_told(monkeypatch):
    counts = [40, 36, 34, 33, 32, 30, 28]
    assert counted(monkeypatch, counts).k == 33
    found = counted(monkeypatch, counts, last=20, is_range_given=True)
    assert (found.k, found.low, found.high, found.is_at_edge, found.confidence) == (20, 20, 20, True, "low")
    assert "more than the range allows" in found.reason


@pytest.mark.needs("infomap")
def test_without_communities_the_silhouette_is_asked():
    # Directions of a cross: no image is similar to another one.
    features = np.concatenate([np.eye(12), -np.eye(12)])
    found = estimate_k(features, np.full(24, -1), method="communities")
    assert (found.method, found.confidence) == ("silhouette", "low")
    assert "no communities" in found.reason


def test_fewer_neighbours_of_a_search_for_many_are_those_of_a_search_for_few(blobs):
    features, labels, _ = blobs
    noisy = torch.from_numpy(features) + torch.randn(240, 16, generator=torch.Generator().manual_seed(0)) * 3
    labels_n = torch.from_numpy(labels)
    task = CountingTask(noisy, labels, 240, 3, 3, 30, False, 0, lambda done, total: None)
    counts = k_by_communities._counts(task)
    seeds = [k_by_communities.derive(0, "communities", m) for m in k_by_communities.NEIGHBOURS]
    alone = [
        communities(noisy, labels_n, n_neighbours=m, seed=seed).max() + 1
        for m, seed in zip(k_by_communities.NEIGHBOURS, seeds, strict=True)
    ]
    assert counts.tolist() == alone
    assert counts[0] > counts[-1] > 1


def test_the_missing_package_is_told_before_any_work(monkeypatch):
    monkeypatch.setattr("nngcd.clustering.communities.importlib.util.find_spec", lambda name: None)
    with pytest.raises(ResourceError, match="nngcd"):
        checked_method("communities")
    assert checked_method("pairs") == "pairs"
