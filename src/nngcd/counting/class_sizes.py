"""Sizes of the labelled classes, unlabelled images included, from how deep their images' neighbourhoods hold them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.clustering.points import Ids
from nngcd.clustering.whitening import whitened_within_classes
from nngcd.counting.scores import Flags, Floats

N_DEPTHS = 12
LEAST_HALVED = 4
"""Labelled images from which a class is split into two halves; smaller ones are counted only, never whitened with."""
BLOCK_CELLS = 8_000_000
"""Similarities that are held at once."""


class NeighbourCounts(NamedTuple):
    """Counts of labelled images among the nearest neighbours of other labelled images, at one depth."""

    depth: int
    """Neighbours that are looked at of each image."""
    near_cc: Floats
    """(labelled image, its labelled neighbour) by their two classes."""
    n_counted_c: Floats
    """Labelled images of each class that were counted."""
    n_seen_c: Floats
    """Labelled images of each class that the whitening has seen; these are nobody's neighbours."""
    n_images: int
    """Images that can be neighbours."""


def count_neighbours(x_nd: Tensor, class_n: Ids, rng: np.random.Generator) -> list[NeighbourCounts]:
    """Return the neighbours at several depths, twice: each half of the labelled images whitens for the other.

    Whitening draws the labelled images it has seen closer together than unlabelled ones of their class. Counted with
    these, classes look smaller than they are.

    Args:
        x_nd: (n, d) features in their main directions.
        class_n: (n,) labelled class of each image, 0, 1, 2, ...; -1 for unlabelled.
        rng: draws the halves.
    """
    half_n = halves(class_n, rng)
    counted = []
    for half in (0, 1):
        is_seen_n = half_n == half
        unit_nd = F.normalize(whitened_within_classes(x_nd, np.where(is_seen_n, class_n, -1)))
        counted += _at_depths(unit_nd, class_n, is_seen_n)
    return counted


def halves(class_n: Ids, rng: np.random.Generator) -> Ids:
    """Return 0 or 1 for the labelled images of each half, -1 for all others and for classes too small to be halved."""
    half_n = np.full(len(class_n), -1)
    for class_ in range(int(class_n.max()) + 1):
        row_m = rng.permutation(np.flatnonzero(class_n == class_))
        if len(row_m) >= LEAST_HALVED:
            half_n[row_m] = (np.arange(len(row_m)) + class_) % 2
    return half_n


def _at_depths(unit_nd: Tensor, class_n: Ids, is_seen_n: Flags) -> list[NeighbourCounts]:
    """Return the labelled neighbours of labelled images, both unseen, at depths from 2 to N / n_old."""
    n_old, image_u = int(class_n.max()) + 1, np.flatnonzero(~is_seen_n)
    if len(image_u) < 3:
        return []
    class_u = class_n[image_u]
    deepest = min(max(len(class_n) // n_old, 4), len(image_u) - 1)
    depth_g = np.unique(np.geomspace(min(2, deepest), deepest, N_DEPTHS).round().astype(int))
    # Which depths hold the neighbour of each rank: those from this place on.
    place_r = np.searchsorted(depth_g, np.arange(deepest) + 1)
    row_m = np.flatnonzero(class_u >= 0)
    target_ud = unit_nd[torch.from_numpy(image_u)]
    near_x = np.zeros(len(depth_g) * n_old * n_old)
    for row_b in np.array_split(row_m, -(-len(row_m) * len(image_u) // BLOCK_CELLS)):
        similarity_bu = target_ud[torch.from_numpy(row_b)] @ target_ud.T
        similarity_bu[torch.arange(len(row_b)), torch.from_numpy(row_b)] = -torch.inf
        class_br = class_u[similarity_bu.topk(deepest).indices.numpy()]
        cell_br = (place_r[None] * n_old + class_u[row_b][:, None]) * n_old + class_br
        near_x += np.bincount(cell_br[class_br >= 0], minlength=len(near_x))
    near_gcc: Floats = near_x.reshape(len(depth_g), n_old, n_old).cumsum(0)
    n_counted_c = np.bincount(class_u[row_m], minlength=n_old).astype(np.float64)
    n_seen_c = np.bincount(class_n[is_seen_n], minlength=n_old).astype(np.float64)
    return [
        NeighbourCounts(depth, near_gcc[g], n_counted_c, n_seen_c, len(image_u))
        for g, depth in enumerate(depth_g.tolist())
    ]


def mean_class_size(found: NeighbourCounts, times_sc: Floats) -> Floats:
    """Return the mean number of images of a labelled class, for each way of counting the classes; nan if unknown.

    Let R be the share of the other images of its class that an image has among its r nearest neighbours, Q that of the
    images of other classes. Labelled images show both. An image of a class of n has r = (n - 1) R + (N - n) Q such
    neighbours, so that n - 1 = (r - (N - 1) Q) / (R - Q). Nothing is assumed of new classes but that they are as near
    to the old ones as these are to each other, nor of how many images of each class are labelled.

    Args:
        found: the counts at one depth.
        times_sc: how often each class is counted: 1, or its number of draws in a bootstrap sample.
    """
    n_c, near_cc = found.n_counted_c, found.near_cc
    is_told_c = n_c > 1
    apart_cc = near_cc - np.diag(np.diag(near_cc))
    times_told_sc = times_sc * is_told_c
    with np.errstate(divide="ignore", invalid="ignore"):
        weight_sc = times_told_sc / times_told_sc.sum(1, keepdims=True)
        within_s = weight_sc @ np.where(is_told_c, np.diag(near_cc) / np.maximum(n_c * (n_c - 1), 1), 0)
        others_sc = (times_sc @ n_c)[:, None] - times_sc * n_c
        between_sc = (times_sc @ apart_cc.T) / np.maximum(n_c, 1) / others_sc
        between_s = np.where(weight_sc > 0, weight_sc * between_sc, 0).sum(1)
        others_s = (found.depth - (found.n_images - 1) * between_s) / (within_s - between_s)
    size_s: Floats = np.where(within_s > between_s, 1 + others_s + weight_sc @ found.n_seen_c, np.nan)
    return size_s
