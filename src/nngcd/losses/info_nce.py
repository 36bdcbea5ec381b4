"""InfoNCE: two views of an image find each other among the views of all others."""

from __future__ import annotations

import torch
from torch import Tensor

from nngcd.losses.pairs import Similarity, check_views, cosines, mean_over_positives, other_images, own_image


def info_nce(
    z_vbd: Tensor,
    *,
    temperature: float = 1.0,
    smoothing: float = 0.0,
    spread_vbwc: Tensor | None = None,
    similarity: Similarity = cosines,
) -> Tensor:
    """Return the mean of -log softmax of each positive against the views of all other images: NN-GCD, Eq. (22).

    The printed denominator runs over one view of the other images. SimGCD's and NN-GCD's code, and we, take both views
    of the others plus the positive, 2B - 1 terms. With more than two views, each ordered pair of views is one positive
    at a time; the image's further views are neither positives nor negatives of that pair.

    Args:
        z_vbd: projections, normalised by the cosine. Fewer than two images give 0: there is nothing to tell apart.
        temperature: 1 in SimGCD.
        smoothing: share of the target that is spread over positive and negatives, in [0, 1]; InfoSieve's.
        spread_vbwc: how it is spread, as weights of each view's pairs that should sum to 1; evenly when absent.
        similarity: what is contrasted.
    """
    check_views(z_vbd)
    if z_vbd.shape[1] < 2:
        return z_vbd.sum() * 0
    logit_vbwc = similarity(z_vbd) / temperature
    positive_vwb = own_image(logit_vbwc)
    negative_vb = other_images(logit_vbwc).logsumexp((2, 3))
    denominator_vwb = torch.logaddexp(positive_vwb, negative_vb[:, None])
    if not smoothing:
        return mean_over_positives(denominator_vwb - positive_vwb)
    spread_vwb, mass_vwb = _evenly(logit_vbwc) if spread_vbwc is None else _by_weight(logit_vbwc, spread_vbwc)
    target_vwb = torch.lerp(positive_vwb, spread_vwb, smoothing)
    return mean_over_positives((1 + smoothing * (mass_vwb - 1)) * denominator_vwb - target_vwb)


def _evenly(logit_vbwc: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean of the logits of each positive and all negatives, and its mass, 1."""
    n_views, n_images = logit_vbwc.shape[:2]
    positive_vwb = own_image(logit_vbwc)
    negative_sum_vb = logit_vbwc.sum((2, 3)) - positive_vwb.sum(1)
    mean_vwb = (positive_vwb + negative_sum_vb[:, None]) / (1 + n_views * (n_images - 1))
    return mean_vwb, torch.ones_like(mean_vwb)


def _by_weight(logit_vbwc: Tensor, weight_vbwc: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weighted sum of the logits of each positive and all negatives, and the sum of their weights."""
    weighted_vbwc = weight_vbwc * logit_vbwc
    sums = []
    for part_vbwc in (weighted_vbwc, weight_vbwc):
        own_vwb = own_image(part_vbwc)
        sums.append(own_vwb + (part_vbwc.sum((2, 3)) - own_vwb.sum(1))[:, None])
    return sums[0], sums[1]
