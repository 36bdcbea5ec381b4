"""InfoNCE: two views of an image find each other among the views of all others."""

from __future__ import annotations

import torch
from torch import Tensor

from nngcd.losses.pairs import check_views, cosines, mean_over_positives, other_images, own_image


def info_nce(z_vbd: Tensor, *, temperature: float = 1.0) -> Tensor:
    """Return the mean of -log softmax of each positive against the views of all other images: NN-GCD, Eq. (22).

    The printed denominator runs over one view of the other images. SimGCD's and NN-GCD's code, and we, take both views
    of the others plus the positive, 2B - 1 terms. With more than two views, each ordered pair of views is one positive
    at a time; the image's further views are neither positives nor negatives of that pair.

    Args:
        z_vbd: projections, normalised here. Fewer than two images give 0: there is nothing to tell apart.
        temperature: 1 in SimGCD.
    """
    check_views(z_vbd)
    if z_vbd.shape[1] < 2:
        return z_vbd.sum() * 0
    logit_vbwc = cosines(z_vbd) / temperature
    positive_vwb = own_image(logit_vbwc)
    negative_vb = other_images(logit_vbwc).logsumexp((2, 3))
    return mean_over_positives(torch.logaddexp(positive_vwb, negative_vb[:, None]) - positive_vwb)
