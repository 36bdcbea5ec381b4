"""NMF NCE: InfoNCE with negatives weighted by how close their similarity is to a chosen value."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nngcd.losses.pairs import Similarity, check_views, cosines, mean_over_positives, other_images, own_image


def nmf_nce(  # noqa: PLR0913 (two forms of one formula)
    z_vbd: Tensor,
    *,
    temperature: float = 0.5,
    mean: float = 0.1,
    deviation: float = 1.0,
    include_positive: bool = True,
    mean_negatives: bool = False,
    similarity: Similarity = cosines,
) -> Tensor:
    """Return the NMF NCE loss: NN-GCD, Eqs. (28) and (29), the same as ADNCE (Wu et al. 2023).

    The default is the authors' code, which the reported numbers used. It departs from the print: the positive is part
    of the denominator, and the weighted negatives are summed, not averaged. `include_positive=False,
    mean_negatives=True` is the printed formula, save that the logarithm is taken per anchor, as in the code, and not
    of one expectation over all anchors. With an infinite `deviation` the default is `info_nce`.

    Args:
        z_vbd: projections, normalised here.
        temperature: tau; 0.5 in the paper (hyper-parameter study).
        mean: cosine at which negatives weigh most (mu).
        deviation: width of the weighting (sigma), positive. With 0.1 and 1 no weight is over 1.5 times another
            for cosines in [0, 1].
        include_positive: whether the positive stands in the denominator.
        mean_negatives: whether negatives are averaged instead of summed.
        similarity: what is contrasted; the weights stay those of the cosines.
    """
    check_views(z_vbd)
    alike_vbwc = similarity(z_vbd)
    positive_vwb = own_image(alike_vbwc) / temperature
    n_views, n_images, _ = z_vbd.shape
    if n_images < 2:
        # No negatives: only the attraction is left, which is constant when the positive is its own denominator.
        return z_vbd.sum() * 0 if include_positive or not n_images else -mean_over_positives(positive_vwb)
    cosine_vbwc = alike_vbwc if similarity is cosines else cosines(z_vbd.detach())
    log_weight_vbwc = log_weights(cosine_vbwc, mean=mean, deviation=deviation)
    negative_vb = (alike_vbwc / temperature + log_weight_vbwc).logsumexp((2, 3))
    if mean_negatives:
        negative_vb = negative_vb - math.log(n_views * (n_images - 1))
    denominator_vwb = negative_vb[:, None].expand_as(positive_vwb)
    if include_positive:
        denominator_vwb = torch.logaddexp(positive_vwb, denominator_vwb)
    return mean_over_positives(denominator_vwb - positive_vwb)


def log_weights(cosine_vbwc: Tensor, *, mean: float, deviation: float) -> Tensor:
    """Return the logarithm of each negative's weight: a Gaussian of its cosine, with mean 1 over an anchor's negatives.

    Views of the anchor's own image get weight 0 (-inf). "f(x)" in Eq. (28) is the raw cosine, before the temperature.
    The weights are constants to the gradient: they choose negatives, they are not learnt.
    """
    n_views, n_images = cosine_vbwc.shape[:2]
    log_gaussian_vbwc = other_images(-(((cosine_vbwc.detach() - mean) / deviation) ** 2) / 2)
    log_sum_vb11 = log_gaussian_vbwc.logsumexp((2, 3), keepdim=True)
    return log_gaussian_vbwc - log_sum_vb11 + math.log(n_views * (n_images - 1))
