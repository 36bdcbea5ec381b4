"""NN-GCD's two theorems in the form in which they hold, as functions whose values can be compared.

Theorem 1: kernel k-means is orthogonal symmetric NMF. Theorem 2: spectral contrastive learning is symmetric NMF of the
normalised co-occurrence. `docs/paper/theory.md` has the proofs and the misprints of the paper.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nngcd.core.errors import DataError
from nngcd.losses.pairs import check_views, mean_over_positives, own_image


def indicator_matrix(labels_n: Tensor, n_clusters: int) -> Tensor:
    """Return h_nk = 1 / sqrt(n_k) where row n is in cluster k, else 0: orthonormal columns if no cluster is empty."""
    h_nk = torch.nn.functional.one_hot(labels_n, n_clusters).double()
    return h_nk / h_nk.sum(0).sqrt()


def kmeans_objective(features_nd: Tensor, labels_n: Tensor) -> Tensor:
    """Return J = sum over the clusters of sum |f - mean|^2, from its definition."""
    clusters = [features_nd[labels_n == k] for k in sorted(set(labels_n.tolist()))]
    return torch.stack([(f_md - f_md.mean(0)).square().sum() for f_md in clusters]).sum()


def trace_form_of_kmeans(affinity_nn: Tensor, labels_n: Tensor) -> Tensor:
    """Return Tr(A) - Tr(H^T A H), which is J for A = F F^T: Theorem 1, first half.

    The paper prints Tr(A^T A) for Tr(A), and a minimum over H where the minus sign makes it a maximum.
    """
    h_nk = indicator_matrix(labels_n, int(labels_n.max()) + 1)
    return affinity_nn.trace() - (h_nk * (affinity_nn @ h_nk)).sum()


def snmf_form_of_kmeans(affinity_nn: Tensor, labels_n: Tensor) -> Tensor:
    """Return Tr(A) + (|A - H H^T|^2 - |A|^2 - K) / 2, which is J for A = F F^T: Theorem 1.

    It holds for every partition into K clusters that are not empty, so the best partitions are the same.
    """
    return relaxed_objective(affinity_nn, indicator_matrix(labels_n, int(labels_n.max()) + 1))


def relaxed_objective(affinity_nn: Tensor, h_nk: Tensor) -> Tensor:
    """Return Tr(A) + (|A - H H^T|^2 - |A|^2 - K) / 2 for any H with K columns.

    It is the k-means objective only where H is the indicator of a partition. Over the larger sets {H >= 0, H^T H = 1}
    and {H >= 0} its minimum is at most that of k-means: symmetric NMF is a relaxation, not an equivalent.
    """
    residual = (affinity_nn - h_nk @ h_nk.T).square().sum()
    return affinity_nn.trace() + (residual - affinity_nn.square().sum() - h_nk.shape[1]) / 2


def perron_indicator(affinity_nn: Tensor, labels_n: Tensor) -> Tensor:
    """Return the best H >= 0 with H^T H = 1 that has the zeros of a partition's indicator.

    Column k is the leading eigenvector of cluster k's block of A, which is non-negative because A is
    (Perron-Frobenius). It is constant on the cluster, as an indicator is, only where the block's row sums are equal.

    Raises:
        DataError: A has negative entries.
    """
    if (affinity_nn < 0).any():
        raise DataError("affinity must not be negative, or the leading eigenvectors need not be non-negative")
    h_nk = affinity_nn.new_zeros(len(labels_n), int(labels_n.max()) + 1)
    for k in range(h_nk.shape[1]):
        row_m = (labels_n == k).nonzero().flatten()
        h_nk[row_m, k] = torch.linalg.eigh(affinity_nn[row_m][:, row_m])[1][:, -1].abs()
    return h_nk


def solve_snmf(affinity_nn: Tensor, rank: int, *, n_init: int = 5, seed: int = 0) -> Tensor:
    """Return the best H >= 0 with `rank` columns that several random starts find for |A - H H^T|_F^2."""
    generator = torch.Generator().manual_seed(seed)
    scale = (affinity_nn.abs().mean() / rank).sqrt() * 2
    starts = [torch.rand(len(affinity_nn), rank, generator=generator, dtype=torch.float64) for _ in range(n_init)]
    found = [refine_snmf(affinity_nn, start_nk * scale) for start_nk in starts]
    return min(found, key=lambda h_nk: _residual(affinity_nn, h_nk))


def refine_snmf(affinity_nn: Tensor, start_nk: Tensor, *, max_iter: int = 5000, tol: float = 1e-14) -> Tensor:
    """Return H >= 0 after projected gradient descent on |A - H H^T|_F^2, which never rises on the way.

    Args:
        affinity_nn: A, symmetric; negative entries are allowed.
        start_nk: the first H, not negative.
        max_iter: steps at most.
        tol: the descent ends when a step lowers the loss by at most this share of |A|_F^2.
    """
    h_nk, loss, enough = start_nk, _residual(affinity_nn, start_nk), tol * float(affinity_nn.square().sum())
    length = 1 / max(4 * float(torch.linalg.matrix_norm(affinity_nn) + 3 * h_nk.square().sum()), 1e-300)
    for _ in range(max_iter):
        next_nk, length = _gradient_step(affinity_nn, h_nk, 2 * length)
        gain = loss - _residual(affinity_nn, next_nk)
        if gain > 0:
            h_nk, loss = next_nk, loss - gain
        if gain <= enough:
            break
    return h_nk


def _gradient_step(affinity_nn: Tensor, h_nk: Tensor, length: float) -> tuple[Tensor, float]:
    """Return H after a step along 4 (A H - H H^T H), cut off at 0, and the length at which Armijo's rule accepts it."""
    gradient_nk = 4 * (h_nk @ (h_nk.T @ h_nk) - affinity_nn @ h_nk)
    loss = _residual(affinity_nn, h_nk)
    for _ in range(60):
        next_nk = (h_nk - length * gradient_nk).clamp_min(0)
        if _residual(affinity_nn, next_nk) <= loss - 1e-4 * float((gradient_nk * (h_nk - next_nk)).sum()):
            return next_nk, length
        length /= 2
    return h_nk, length


def _residual(affinity_nn: Tensor, h_nk: Tensor) -> float:
    return float((affinity_nn - h_nk @ h_nk.T).square().sum())


def spectral_ncl(features_vbd: Tensor) -> Tensor:
    """Return -2 E[f(x) . f(x+)] + E[(f(x) . f(x-))^2] of a batch: NN-GCD, Eq. (15).

    Eqs. (3) and (12) put the square outside the second expectation; inside is meant (Eq. (15)) and needed for the
    equivalence with `snmf_loss`. Negatives are all views of different images: those are independent draws, so that
    the expectation over batches is the population's loss. One image has no negatives and gives the first term only.

    Args:
        features_vbd: taken as they are: not normalised, and made non-negative by the caller's activation, if wanted.
    """
    check_views(features_vbd)
    n_views, n_images, _ = features_vbd.shape
    product_vbwc = torch.einsum("vbd,wcd->vbwc", features_vbd, features_vbd)
    own_vwb = own_image(product_vbwc)
    negative_sum = product_vbwc.square().sum() - own_vwb.square().sum()
    n_negatives = n_views**2 * n_images * (n_images - 1)
    return -2 * mean_over_positives(own_vwb) + negative_sum / max(n_negatives, 1)


def snmf_loss(cooccurrence_nn: Tensor, features_nd: Tensor) -> Tensor:
    """Return |A - F F^T|_F^2 for the normalised co-occurrence A and F = sqrt(p) f: NN-GCD, Eq. (16).

    Args:
        cooccurrence_nn: P, symmetric and non-negative, summing to 1, every row sum p above 0: how often x and x' are
            views of one image.
        features_nd: f(x) of each of the n possible views.
    """
    root_n = cooccurrence_nn.sum(1).sqrt()
    factor_nd = root_n[:, None] * features_nd
    return (cooccurrence_nn / torch.outer(root_n, root_n) - factor_nd @ factor_nd.T).square().sum()


def population_ncl(cooccurrence_nn: Tensor, features_nd: Tensor) -> Tensor:
    """Return -2 E[f(x) . f(x+)] + E[(f(x) . f(x-))^2] over all pairs: what `spectral_ncl` estimates.

    x and x+ are drawn from P, x and x- independently from its margin p; x- may be x.
    """
    product_nn = features_nd @ features_nd.T
    p_n = cooccurrence_nn.sum(1)
    return -2 * (cooccurrence_nn * product_nn).sum() + (torch.outer(p_n, p_n) * product_nn.square()).sum()


def ncl_form_of_snmf(cooccurrence_nn: Tensor, features_nd: Tensor) -> Tensor:
    """Return sum P^2 / (p p') + population NCL, which is `snmf_loss`: Theorem 2.

    It holds for every f, non-negative or not, and the first term does not depend on f.
    """
    p_n = cooccurrence_nn.sum(1)
    constant = (cooccurrence_nn.square() / torch.outer(p_n, p_n)).sum()
    return constant + population_ncl(cooccurrence_nn, features_nd)


class BlockExample(NamedTuple):
    """Classes that never share a view: here k-means, SNMF and NCL agree on the partition, each with its optimum."""

    cooccurrence_nn: Tensor
    """P: any two points of a class are equally often views of one image."""
    affinity_nn: Tensor
    """The normalised P, which is exactly H H^T of the classes' indicator."""
    features_nd: Tensor
    """f = H / sqrt(p): non-negative, with an SNMF loss of 0."""
    labels_n: Tensor


def block_example(sizes: list[int]) -> BlockExample:
    """Return the example with classes of these sizes, in float64."""
    labels_n = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    is_same_nn = (labels_n[:, None] == labels_n).double()
    cooccurrence_nn = is_same_nn / is_same_nn.sum()
    root_n = cooccurrence_nn.sum(1).sqrt()
    h_nk = indicator_matrix(labels_n, len(sizes))
    return BlockExample(
        cooccurrence_nn, cooccurrence_nn / torch.outer(root_n, root_n), h_nk / root_n[:, None], labels_n
    )
