"""Pairs of views that contrastive losses compare: the same image, or another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

Similarity = Callable[[Tensor], Tensor]
"""Gives similarity_vbwc of z_vbd: how alike view v of image b and view w of image c are."""
NEGLIGIBLE = 1e-6
"""Squared distances below this share of |a|^2 + |b|^2 are rounding errors of float32."""


def unit(z_vbd: Tensor) -> Tensor:
    """Return the vectors at length 1; a zero vector stays zero and gets no gradient.

    `F.normalize` gives the same values, but a zero vector gets a gradient of 1 / eps = 1e12 there. A projection can be
    exactly zero under `rep_relu`, whose own gradient would let that through to the weights.
    """
    norm_vb1: Tensor = torch.linalg.vector_norm(z_vbd, dim=-1, keepdim=True)
    return z_vbd / norm_vb1.masked_fill(norm_vb1 == 0, torch.inf)


def cosines(z_vbd: Tensor, keys_vbd: Tensor | None = None) -> Tensor:
    """Return cosine_vbwc: view v of image b against view w of image c; a zero vector has cosine 0 with everything.

    Args:
        z_vbd: the vectors.
        keys_vbd: what they are compared with, if not with themselves: a teacher's vectors, which get no gradient.
    """
    unit_vbd = unit(z_vbd)
    unit_wcd = unit_vbd if keys_vbd is None else unit(keys_vbd.detach())
    return torch.einsum("vbd,wcd->vbwc", unit_vbd, unit_wcd)


def distances(z_vbd: Tensor) -> Tensor:
    """Return distance_vbwc: the Euclidean distance of the vectors as they are, 0 without a gradient where they agree.

    By one matrix product: torch's exact distances need memory for all differences, 17 GB for 256 vectors of 65,536.
    What that costs in accuracy is a distance below a thousandth of the vectors' length, which counts as 0. The square
    root has no gradient there (1 / 0), and close by it would be that of a rounding error.
    """
    square_vb = z_vbd.square().sum(-1)
    both_vbwc = square_vb[:, :, None, None] + square_vb
    square_vbwc = both_vbwc - 2 * torch.einsum("vbd,wcd->vbwc", z_vbd, z_vbd)
    is_apart_vbwc = square_vbwc > NEGLIGIBLE * both_vbwc
    return torch.where(is_apart_vbwc, square_vbwc, 1.0).sqrt() * is_apart_vbwc


def closeness(z_vbd: Tensor) -> Tensor:
    """Return minus the distance of the vectors at length 1, in [-2, 0]: the similarity that InfoSieve contrasts."""
    return -distances(unit(z_vbd))


def relative_closeness(z_vbd: Tensor, *, of: Literal["own", "other"] = "own") -> Tensor:
    """Return minus the distances as shares of all distances from the same view, so their scale does not matter.

    The vectors are taken as they are. InfoSieve compares its codes so. In its code they are shares of all distances
    from the other view (`of="other"`: a sum over rows that torch then spreads over columns), so that how a view
    compares with others depends on how far those are from everything.
    """
    distance_vbwc = distances(z_vbd)
    total_vb = distance_vbwc.sum((2, 3))
    total_vb = total_vb.masked_fill(total_vb == 0, torch.inf)
    return -distance_vbwc / (total_vb[:, :, None, None] if of == "own" else total_vb)


def own_image(pair_vbwc: Tensor) -> Tensor:
    """Return pair_vwb: the pairs of views v and w of the same image, a view with itself (v = w) included."""
    return pair_vbwc.diagonal(dim1=1, dim2=3)


def other_images(pair_vbwc: Tensor) -> Tensor:
    """Return the pairs with those of the same image set to -inf, which takes them out of every log-sum-exp."""
    is_own_bc = torch.eye(pair_vbwc.shape[1], dtype=torch.bool, device=pair_vbwc.device)
    return pair_vbwc.masked_fill(is_own_bc[None, :, None, :], -torch.inf)


def mean_over_positives(loss_vwb: Tensor) -> Tensor:
    """Return the mean over images and all ordered pairs of different views."""
    is_same_vw = torch.eye(len(loss_vwb), dtype=torch.bool, device=loss_vwb.device)
    return loss_vwb[~is_same_vw].mean()


def check_views(x_vbd: Tensor) -> None:
    """Raise `ValueError` when there are fewer than two views per image, so nothing to compare."""
    if x_vbd.ndim != 3 or len(x_vbd) < 2:
        raise ValueError(f"needs (views, images, features) with at least 2 views per image, got {tuple(x_vbd.shape)}")
