"""SelEx's soft targets: the weight of a pair grows with the levels at which the two are not of one cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from nngcd.losses.pairs import distances

FLAT = 1e-7
"""Added to the range of the weights, which is 0 where all are equal, as in the code of the authors."""


@torch.no_grad()
def radii(centres_kd: Tensor) -> Tensor:
    """Return half the distance from each centre to the nearest other one; infinite for a centre that is alone."""
    distance_kk = torch.cdist(centres_kd, centres_kd, compute_mode="donot_use_mm_for_euclid_dist")
    half_k: Tensor = distance_kk.fill_diagonal_(torch.inf).amin(1) / 2
    return half_k


@torch.no_grad()
def farther_than_own_cluster(
    features_vbd: Tensor, radius_lb: Sequence[Tensor] | Tensor, *, shares: Literal["own", "other"] = "own"
) -> Tensor:
    """Return spread_vbwc: where view v of image b spreads its target, over the views w of images c.

    At level l a pair counts 2^-l if the two are farther apart than twice the radius of the cluster of c: as far as the
    next cluster. So nearby images, which are hard to tell apart, get less of the target than distant ones.

    Args:
        features_vbd: the vectors whose distances count.
        radius_lb: for each level, the finest first, the radius of each image's cluster.
        shares: whether a view's weights are divided by its own sum, without itself; or by that of the other view, which
            the authors' code does, with itself (a sum over rows that torch then spreads over columns).
    """
    distance_vbwc = distances(features_vbd)
    count_vbwc = torch.zeros_like(distance_vbwc)
    for level, radius_b in enumerate(radius_lb):
        count_vbwc += (distance_vbwc > 2 * radius_b).to(count_vbwc) / 2**level
    least, most = count_vbwc.aminmax()
    weight_vbwc = (count_vbwc - least) / (most - least + FLAT)
    if shares == "own":
        n_views, n_images = features_vbd.shape[:2]
        is_self = torch.eye(n_views * n_images, dtype=torch.bool, device=weight_vbwc.device).view(weight_vbwc.shape)
        weight_vbwc = weight_vbwc.masked_fill(is_self, 0)
    total_vb = weight_vbwc.sum((2, 3))
    total_vb = total_vb.masked_fill(total_vb == 0, 1)
    return weight_vbwc / (total_vb[:, :, None, None] if shares == "own" else total_vb)
