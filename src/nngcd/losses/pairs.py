"""Pairs of views that contrastive losses compare: the same image, or another one."""

from __future__ import annotations

import torch
from torch import Tensor


def unit(z_vbd: Tensor) -> Tensor:
    """Return the vectors at length 1; a zero vector stays zero and gets no gradient.

    `F.normalize` gives the same values, but a zero vector gets a gradient of 1 / eps = 1e12 there. A projection can be
    exactly zero under `rep_relu`, whose own gradient would let that through to the weights.
    """
    norm_vb1: Tensor = torch.linalg.vector_norm(z_vbd, dim=-1, keepdim=True)
    return z_vbd / norm_vb1.masked_fill(norm_vb1 == 0, torch.inf)


def cosines(z_vbd: Tensor) -> Tensor:
    """Return cosine_vbwc: view v of image b against view w of image c; a zero vector has cosine 0 with everything."""
    unit_vbd = unit(z_vbd)
    return torch.einsum("vbd,wcd->vbwc", unit_vbd, unit_vbd)


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
