"""Known clusters that hide a new category: labels show it, because a part without labelled images is something else.

If the labelled images of a category are a random share of it, every larger part of the category holds about that share.
A part of its cluster that holds far fewer is of another category, which looks alike and was swallowed (docs/theory.md).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import binom
from torch import Tensor

from nngcd.clustering.neighbours import nearest_neighbours

LEAST_IMAGES = 3
"""Of a part: fewer say nothing at any level."""
MOST_ROUNDS = 50
"""The two centres of a cluster hardly ever move longer."""
START_SHARE = 0.2
"""How many of a cluster's images, those furthest from its labelled ones, the second centre starts at."""
LEAST_SHARE = 0.8
"""How much of the labelled share a part is allowed to have by nature: labelled images are drawn to each other in
training, so that their neighbours show a little too many of them."""
OWN_LEVEL = 0.05
"""How unlikely so few labels must also be if the cluster's own labels were dealt out to its images at random: a part is
looked for where labels are few, so that some such part is always found, and categories may be labelled unevenly."""
N_DEALS = 400
"""How often they are dealt out."""
N_NEIGHBOURS = 3
"""Neighbours of each labelled image that are asked."""
MOST_CANDIDATES = 50_000
"""Of more images a random sample is looked through for neighbours."""


class HiddenPart(NamedTuple):
    """A part of a known cluster that is of another category."""

    cluster: int
    image_m: Tensor
    """Its unlabelled images."""
    n_part: int
    """Images of the part, the labelled ones that lie within it among them."""
    n_images: int
    """Images of the whole cluster."""
    n_labelled_in_part: int
    n_labelled: int
    """Labelled images of the known category."""
    p_value: float
    """How likely so few labelled images were if the part belonged to the category."""


def hidden_parts(
    unit_nd: Tensor, cluster_n: Tensor, labels_n: Tensor, *, n_old: int, level: float, generator: torch.Generator
) -> list[HiddenPart]:
    """Return the parts of known clusters that hold too few labelled images, the most certain first.

    Args:
        unit_nd: features of length 1.
        cluster_n: the cluster of each image; cluster k < n_old is old class k.
        labels_n: -1 for unlabelled images.
        n_old: how many clusters are known.
        level: how unlikely so few labels must be over all clusters together (Bonferroni); see also `OWN_LEVEL`.
        generator: of the sample that the labelled share is estimated from, where there are many images.
    """
    is_labelled_n = labels_n >= 0
    share = LEAST_SHARE * labelled_share(unit_nd, is_labelled_n, generator)
    own_n = torch.where(is_labelled_n, labels_n, cluster_n)
    order_n = own_n.argsort(stable=True)
    image_k = torch.split(order_n, own_n.bincount(minlength=n_old).tolist())[:n_old]
    found = []
    for cluster, image_m in enumerate(image_k):
        is_labelled_m = is_labelled_n[image_m]
        is_part_m = parts_apart(unit_nd[image_m], is_labelled_m[None])[0]
        n_part, n_labelled_in_part = int(is_part_m.sum()), int((is_part_m & is_labelled_m).sum())
        p_value = float(binom.cdf(n_labelled_in_part, n_part, share))
        if p_value * n_old < level and _is_rare(unit_nd[image_m], is_labelled_m, p_value, share, generator):
            others_m, n_labelled = image_m[is_part_m & ~is_labelled_m], int(is_labelled_m.sum())
            found.append(
                HiddenPart(cluster, others_m, n_part, len(image_m), n_labelled_in_part, n_labelled, p_value)
            )  # fmt: skip
    return sorted(found, key=lambda part: part.p_value)


def labelled_share(unit_nd: Tensor, is_labelled_n: Tensor, generator: torch.Generator) -> float:
    """Return which share of their own categories' images is labelled, as the neighbours of labelled images show it.

    The nearest neighbours of a labelled image are nearly always of the same category, so they are labelled as often as
    the category's images are.
    """
    n = len(unit_nd)
    kept_c = torch.randperm(n, generator=generator)[:MOST_CANDIDATES].sort().values.to(unit_nd.device)
    is_labelled_c = is_labelled_n[kept_c]
    if not is_labelled_c.any() or len(kept_c) < 2:
        return 0.0
    neighbour_cm = nearest_neighbours(unit_nd[kept_c], N_NEIGHBOURS)
    return float(is_labelled_c[neighbour_cm][is_labelled_c].double().mean())


def parts_apart(unit_md: Tensor, is_labelled_bm: Tensor) -> Tensor:
    """Return is_part_bm: the images of a cluster that are nearer to a second centre than to the labelled images' side.

    Two-means in which labelled images always count for the first centre; the second starts far from them and is the
    mean of unlabelled images only. Labelled images that lie nearer to it nevertheless speak against the part.

    Args:
        unit_md: features of the cluster's images, of length 1.
        is_labelled_bm: which of them are labelled, in as many ways as are to be looked at.
    """
    first_bd = _means(unit_md, is_labelled_bm)
    cosine_bm = (first_bd @ unit_md.T).masked_fill(is_labelled_bm, torch.inf)
    n_start = max(2, int(START_SHARE * len(unit_md)))
    start_bs = cosine_bm.argsort(dim=-1, stable=True)[:, :n_start]
    free_bm = torch.zeros_like(is_labelled_bm).scatter_(1, start_bs, torch.ones_like(start_bs, dtype=torch.bool))
    part_bm, free_bm = free_bm, free_bm & ~is_labelled_bm
    for _ in range(MOST_ROUNDS):
        second_bd = _means(unit_md, free_bm)
        # |x - b|^2 < |x - a|^2 for x, first centre a and second centre b.
        limit_b = (second_bd.square().sum(-1) - first_bd.square().sum(-1)) / 2
        near_bm = (second_bd - first_bd) @ unit_md.T > limit_b[:, None]
        near_bm &= (free_bm.sum(-1) >= LEAST_IMAGES)[:, None]
        if torch.equal(near_bm, part_bm):
            break
        part_bm, free_bm = near_bm, near_bm & ~is_labelled_bm
        first_bd = _means(unit_md, ~free_bm)
    return part_bm & (is_labelled_bm.any(-1) & (free_bm.sum(-1) >= LEAST_IMAGES))[:, None]


def _means(unit_md: Tensor, is_member_bm: Tensor) -> Tensor:
    member_bm = is_member_bm.to(unit_md)
    return member_bm @ unit_md / member_bm.sum(-1, keepdim=True).clamp_min(1)


def _is_rare(
    unit_md: Tensor, is_labelled_m: Tensor, p_value: float, share: float, generator: torch.Generator
) -> bool:  # fmt: skip
    """Whether parts with so few labels are hardly ever found when the labels are dealt out at random."""
    order_bm = torch.rand(N_DEALS, len(unit_md), generator=generator).argsort(-1).to(unit_md.device)
    is_labelled_bm = is_labelled_m[order_bm]
    is_part_bm = parts_apart(unit_md, is_labelled_bm)
    n_labelled_b, n_part_b = (is_part_bm & is_labelled_bm).sum(-1).cpu(), is_part_bm.sum(-1).cpu()
    n_as_rare = np.count_nonzero(binom.cdf(n_labelled_b.numpy(), n_part_b.numpy(), share) <= p_value)
    return bool((1 + n_as_rare) / (1 + N_DEALS) < OWN_LEVEL)


def split_gain(unit_nd: Tensor, part_m: Tensor, rest_m: Tensor) -> float:
    """Return how much nearer the images of a part and of the rest are to centres of their own (Ward's criterion)."""
    apart = (unit_nd[part_m].mean(0) - unit_nd[rest_m].mean(0)).square().sum()
    return float(apart * len(part_m) * len(rest_m) / (len(part_m) + len(rest_m)))


class Merge(NamedTuple):
    """Two clusters that can do with one centre."""

    kept: int
    """The larger one."""
    freed: int
    cost: float
    """By how much the images are further from it than from their own ones: what `split_gain` is for two parts."""


def cheapest_merge(unit_nd: Tensor, cluster_n: Tensor, cluster_m: Tensor) -> Merge:
    """Return the two clusters whose images lose least by having one centre.

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
