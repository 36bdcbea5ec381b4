"""InfoNCE: two views of an image find each other among the views of all others."""

from __future__ import annotations

import torch
from torch import Tensor

from nngcd.losses.pairs import Similarity, check_views, cosines, mean_over_positives, other_images, own_image


def info_nce(
    z_vbd: Tensor, *, temperature: float = 1.0, smoothing: float = 0.0, similarity: Similarity = cosines
) -> Tensor:
    """Return the mean of -log softmax of each positive against the views of all other images: NN-GCD, Eq. (22).

    The printed denominator runs over one view of the other images. SimGCD's and NN-GCD's code, and we, take both views
    of the others plus the positive, 2B - 1 terms. With more than two views, each ordered pair of views is one positive
    at a time; the image's further views are neither positives nor negatives of that pair.

    Args:
        z_vbd: projections, normalised by the cosine. Fewer than two images give 0: there is nothing to tell apart.
        temperature: 1 in SimGCD.
        smoothing: share of the target that is spread evenly over positive and negatives, in [0, 1]; InfoSieve's.
        similarity: what is contrasted.
    """
    check_views(z_vbd)
    if z_vbd.shape[1] < 2:
        return z_vbd.sum() * 0
    logit_vbwc = similarity(z_vbd) / temperature
    positive_vwb = own_image(logit_vbwc)
    negative_vb = other_images(logit_vbwc).logsumexp((2, 3))
    target_vwb = positive_vwb
    if smoothing:
        n_views, n_images, _ = z_vbd.shape
        negative_sum_vb = logit_vbwc.sum((2, 3)) - positive_vwb.sum(1)
        mean_vwb = (positive_vwb + negative_sum_vb[:, None]) / (1 + n_views * (n_images - 1))
        target_vwb = torch.lerp(positive_vwb, mean_vwb, smoothing)
    return mean_over_positives(torch.logaddexp(positive_vwb, negative_vb[:, None]) - target_vwb)
