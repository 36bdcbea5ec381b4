"""Non-negative contrastive learning in its spectral form, and the matrix factorisation it equals."""

from __future__ import annotations

import torch
from torch import Tensor

from nngcd.losses.pairs import check_views, mean_over_positives, own_image


def spectral_ncl(features_vbd: Tensor) -> Tensor:
    """Return -2 E[f(x) . f(x+)] + E[(f(x) . f(x-))^2]: NN-GCD, Eq. (15).

    Eqs. (3) and (12) put the square outside the second expectation; inside is meant (Eq. (15)) and needed for the
    equivalence with `snmf_loss`. Negatives are all views of different images: those are independent draws, so that
    the expectation over batches is the population's loss. One image has no negatives and gives the first term only.

    Args:
        features_vbd: taken as they are: not normalised, and made non-negative by the caller's activation, if wanted.
    """
    check_views(features_vbd)
    n_views, n_images, _ = features_vbd.shape
    if not n_images:
        return features_vbd.sum() * 0
    product_vbwc = torch.einsum("vbd,wcd->vbwc", features_vbd, features_vbd)
    own_vwb = own_image(product_vbwc)
    negative_sum = product_vbwc.square().sum() - own_vwb.square().sum()
    n_negatives = n_views**2 * n_images * (n_images - 1)
    return -2 * mean_over_positives(own_vwb) + negative_sum / max(n_negatives, 1)


def snmf_loss(cooccurrence_nn: Tensor, features_nd: Tensor) -> Tensor:
    """Return |A - F F^T|_F^2 for the normalised co-occurrence A and F = sqrt(p) f: NN-GCD, Eq. (16).

    For every f, non-negative or not, it is sum P^2 / (p p') plus the population's spectral NCL loss (tested); this is
    the paper's Theorem 2. Its Eq. (17) prints P / (p p') for the normalised P / sqrt(p p') on the way.

    Args:
        cooccurrence_nn: P, symmetric and non-negative, summing to 1: how often x and x' are views of one image.
        features_nd: f(x) of each of the n possible views.

    Raises:
        ValueError: P is not a symmetric, non-negative matrix over the features, or a row of it is all zero.
    """
    n_points = len(features_nd)
    if cooccurrence_nn.shape != (n_points, n_points):
        raise ValueError(f"cooccurrence must be {n_points} x {n_points}, got {tuple(cooccurrence_nn.shape)}")
    if (cooccurrence_nn < 0).any() or not torch.allclose(cooccurrence_nn, cooccurrence_nn.T):
        raise ValueError("cooccurrence must be symmetric and non-negative")
    root_n = cooccurrence_nn.sum(1).sqrt()
    if not (root_n > 0).all():
        raise ValueError("cooccurrence has a row without any mass; leave that point out")
    factor_nd = root_n[:, None] * features_nd
    return (cooccurrence_nn / torch.outer(root_n, root_n) - factor_nd @ factor_nd.T).square().sum()
