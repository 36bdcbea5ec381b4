"""NN-GCD's two theorems in the form in which they hold, as functions whose values can be compared.

Theorem 1: kernel k-means is orthogonal symmetric NMF. Theorem 2: spectral contrastive learning is symmetric NMF of the
normalised co-occurrence. `docs/paper/theory.md` has the proofs and the slips of the printed paper.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nngcd.clustering.snmf import indicator_matrix
from nngcd.core.errors import DataError


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


def population_ncl(cooccurrence_nn: Tensor, features_nd: Tensor) -> Tensor:
    """Return -2 E[f(x) . f(x+)] + E[(f(x) . f(x-))^2] over all pairs: what `losses.ncl.spectral_ncl` estimates.

    x and x+ are drawn from P, x and x- independently from its margin p; x- may be x.
    """
    product_nn = features_nd @ features_nd.T
    p_n = cooccurrence_nn.sum(1)
    return -2 * (cooccurrence_nn * product_nn).sum() + (torch.outer(p_n, p_n) * product_nn.square()).sum()


def ncl_form_of_snmf(cooccurrence_nn: Tensor, features_nd: Tensor) -> Tensor:
    """Return sum P^2 / (p p') + population NCL, which is `losses.ncl.snmf_loss`: Theorem 2.

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
