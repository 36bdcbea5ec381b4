"""Contrastive mean shift: what is contrasted has first moved towards the mean of its neighbours (CMS)."""

from __future__ import annotations

import torch
from torch import Tensor

from nngcd.losses.pairs import check_views, mean_over_positives, other_images, own_image


def shifted(z_vbd: Tensor, neighbour_vbd: Tensor, *, step: float) -> Tensor:
    """Return the vectors one step nearer to the means of their neighbours, at length 1.

    Their length counts as a constant for the gradient, as in the authors' code.

    Args:
        z_vbd: vectors of length 1.
        neighbour_vbd: mean of the neighbours of each; it gets no gradient.
        step: the share of the way, in [0, 1).
    """
    moved_vbd = torch.lerp(z_vbd, neighbour_vbd.detach(), step)
    length_vb1: Tensor = torch.linalg.vector_norm(moved_vbd.detach(), dim=-1, keepdim=True)
    return moved_vbd / length_vb1.masked_fill(length_vb1 == 0, torch.inf)


def decoupled_contrast(z_vbd: Tensor, *, temperature: float) -> Tensor:
    """Return the mean of log sum exp of the similarities with other images, minus that with each positive.

    InfoNCE without the positive in the denominator, so that it can be negative; similarities are dot products.

    Args:
        z_vbd: vectors of length 1. Fewer than two images give 0: there is nothing to tell apart.
        temperature: 0.25 and 0.3 in CMS.
    """
    check_views(z_vbd)
    if z_vbd.shape[1] < 2:
        return z_vbd.sum() * 0
    logit_vbwc = torch.einsum("vbd,wcd->vbwc", z_vbd, z_vbd) / temperature
    negative_vb = other_images(logit_vbwc).logsumexp((2, 3))
    return mean_over_positives(negative_vb[:, None] - own_image(logit_vbwc))
