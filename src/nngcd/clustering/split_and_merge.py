"""A new category that hides in a known cluster gets the centre that two new clusters can do without."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nngcd.clustering.hidden_parts import HiddenPart, hidden_parts

LEAST_GAIN = 0.5
"""How much of what its merge costs a split must gain: where all new clusters are far apart, a wrong split would put two
categories into one."""


class Moved(NamedTuple):
    """Clusters after splits and merges."""

    cluster_n: Tensor
    splits: list[HiddenPart]
    cluster_m: Tensor
    """The clusters whose images have changed."""


class Merge(NamedTuple):
    """Two clusters that can do with one centre."""

    kept: int
    """The larger one."""
    freed: int
    cost: float
    """By how much their images are further from it than from their own ones: what `split_gain` is for two parts."""


def split_and_merge(  # noqa: PLR0913 (images, their clusters, their labels, and how many there are)
    unit_nd: Tensor, plain_nd: Tensor, cluster_n: Tensor, labels_n: Tensor, *, n_old: int, n_clusters: int, level: float
) -> Moved:
    """Return the clusters with hidden parts split off, each in exchange for a merge: the number of clusters stays.

    Args:
        unit_nd: learned features of length 1.
        plain_nd: features that no label has touched; see `hidden_parts`.
        cluster_n: the cluster of each image; labelled images are put into theirs.
        labels_n: -1 for unlabelled images.
        n_old: how many clusters are known.
        n_clusters: how many there are.
        level: which share of the splits may be wrong, in the mean.
    """
    cluster_n = torch.where(labels_n >= 0, labels_n, cluster_n)
    splits, moved = [], set[int]()
    # What a part was given is not merged away again in the same search.
    new_m = torch.arange(n_old, n_clusters, device=cluster_n.device)
    for part in hidden_parts(unit_nd, plain_nd, cluster_n.clone(), labels_n, n_old=n_old, level=level):
        if len(new_m) < 2:
            break
        merge, is_rest_n = cheapest_merge(unit_nd, cluster_n, new_m), cluster_n == part.cluster
        is_rest_n[part.image_m] = False
        if split_gain(unit_nd[part.image_m], unit_nd[is_rest_n]) < LEAST_GAIN * merge.cost:
            continue
        cluster_n[cluster_n == merge.freed] = merge.kept
        cluster_n[part.image_m] = merge.freed
        new_m = new_m[new_m != merge.freed]
        moved |= {part.cluster, merge.kept, merge.freed}
        splits.append(part)
    return Moved(cluster_n, splits, torch.tensor(sorted(moved), dtype=torch.int64, device=cluster_n.device))


def split_gain(part_md: Tensor, rest_md: Tensor) -> float:
    """Return how much nearer the images of a part and of the rest are to centres of their own (Ward's criterion)."""
    apart = (part_md.mean(0) - rest_md.mean(0)).square().sum()
    return float(apart * len(part_md) * len(rest_md) / (len(part_md) + len(rest_md)))


def cheapest_merge(unit_nd: Tensor, cluster_n: Tensor, cluster_m: Tensor) -> Merge:
    """Return the two clusters whose images lose least by having one centre (Ward's criterion).

    Args:
        unit_nd: features of length 1.
        cluster_n: the cluster of each image.
        cluster_m: the clusters that may be merged, at least two.
    """
    n_clusters = int(torch.maximum(cluster_n.max(), cluster_m.max())) + 1
    size_m = cluster_n.bincount(minlength=n_clusters)[cluster_m].to(unit_nd.dtype)
    sum_kd = unit_nd.new_zeros(n_clusters, unit_nd.shape[1]).index_add_(0, cluster_n, unit_nd)
    mean_md = sum_kd[cluster_m] / size_m.clamp_min(1)[:, None]
    cost_mm = (
        torch.cdist(mean_md, mean_md).square() * size_m[:, None] * size_m / (size_m[:, None] + size_m).clamp_min(1)
    )
    cost_mm.fill_diagonal_(torch.inf)
    first, second = divmod(int(cost_mm.argmin()), len(cluster_m))
    if size_m[first] < size_m[second]:
        first, second = second, first
    return Merge(int(cluster_m[first]), int(cluster_m[second]), float(cost_mm[first, second]))
