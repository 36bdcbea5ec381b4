"""Symmetric non-negative matrix factorisation A = H H^T, and the kernel k-means it relaxes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from nngcd.clustering.kmeans import KMeans
from nngcd.clustering.points import Rows, as_labels, as_tensor, check_counts, check_tolerance, check_whole
from nngcd.core.errors import ConfigError, DataError

Solver = Literal["multiplicative", "projected-gradient"]
ASYMMETRY = 1e-5
"""Share of its entry, and of the largest one, by which A may differ from its transpose: more than rounding does."""


class SNMFResult(NamedTuple):
    """The best factor found."""

    h_nk: Tensor
    loss: float
    """|A - H H^T|_F^2."""
    n_iter: int


class KernelKMeansResult(NamedTuple):
    """The best partition found."""

    labels_n: Tensor
    objective: float
    """Sum over the points of the squared distance to their cluster's mean, in the space of which A has the products."""
    n_iter: int


def solve_snmf(  # noqa: PLR0913 (what is solved, how often, until when: none belongs to another)
    affinity_nn: Rows,
    rank: int,
    *,
    solver: Solver = "multiplicative",
    n_init: int = 5,
    max_iter: int = 1000,
    tol: float = 1e-9,
    generator: torch.Generator,
) -> SNMFResult:
    """Return the best of several random starts of min |A - H H^T|_F^2 over H >= 0 with `rank` columns.

    Args:
        affinity_nn: A, symmetric; negative entries are allowed. Half precision is computed as float32.
        rank: columns of H.
        solver: `multiplicative` cannot leave a zero of H, but needs no step size; `projected-gradient` can.
        n_init: starts; their entries are uniform, scaled so that H H^T has the mean of |A|.
        max_iter: steps of each start at most.
        tol: a start ends when a step lowers the loss by less than this share of |A|_F^2.
        generator: source of the starts, on the CPU.

    Raises:
        ConfigError: a setting has a value it cannot have.
        DataError: A is not symmetric, or not of finite real numbers that can be squared.
    """
    affinity_nn = _squared(_symmetric(affinity_nn))
    check_counts(rank=rank, n_init=n_init)
    scale = (affinity_nn.abs().mean() / rank).sqrt() * 2
    starts = [torch.rand(len(affinity_nn), rank, generator=generator, dtype=torch.float64) for _ in range(n_init)]
    results = [
        refine_snmf(affinity_nn, start_nk.to(affinity_nn) * scale, solver=solver, max_iter=max_iter, tol=tol)
        for start_nk in starts
    ]
    return min(results, key=lambda result: result.loss)


def refine_snmf(
    affinity_nn: Rows, start_nk: Rows, *, solver: Solver = "multiplicative", max_iter: int = 1000, tol: float = 1e-9
) -> SNMFResult:
    """Return what a solver makes of a given start; the loss never rises on the way. Arguments as for `solve_snmf`.

    Raises:
        ConfigError: a setting has a value it cannot have.
        DataError: A is not symmetric, not of finite real numbers that can be squared, or the start does not fit it or
            has an entry that is negative or no number.
    """
    check_whole(max_iter=max_iter)
    if max_iter < 0:
        raise ConfigError("max_iter", max_iter, "must not be negative")
    check_tolerance(tol)
    affinity_nn = _squared(_symmetric(affinity_nn))
    h_nk = _checked_start(start_nk, affinity_nn)
    step = _stepper(affinity_nn, solver)
    loss, n_iter = _loss(affinity_nn, h_nk), 0
    enough = tol * float(affinity_nn.square().sum())
    while n_iter < max_iter:
        next_nk, n_iter = step(h_nk), n_iter + 1
        gain = loss - _loss(affinity_nn, next_nk)
        if gain > 0:
            h_nk, loss = next_nk, loss - gain
        if gain <= enough:
            break
    return SNMFResult(h_nk, _loss(affinity_nn, h_nk), n_iter)


def indicator_matrix(labels_n: Rows, n_clusters: int) -> Tensor:
    """Return h_nk = 1 / sqrt(n_k) where row n is in cluster k, else 0: orthonormal columns, float64.

    Raises:
        DataError: a label is no cluster, or a cluster is empty; its column has no length.
    """
    label_n = as_labels(labels_n, len(labels_n))
    if not len(label_n) or int(label_n.min()) < 0 or int(label_n.max()) >= n_clusters:
        raise DataError(f"every row must be in one of the clusters 0 to {n_clusters - 1}")
    h_nk = torch.nn.functional.one_hot(label_n, n_clusters).double()
    if not (h_nk.sum(0) > 0).all():
        raise DataError(f"all {n_clusters} clusters must have rows, sizes are {h_nk.sum(0).long().tolist()}")
    return h_nk / h_nk.sum(0).sqrt()


def kernel_kmeans(
    affinity_nn: Rows, n_clusters: int, *, n_init: int = 10, max_iter: int = 300, generator: torch.Generator
) -> KernelKMeansResult:
    """Return the best partition found of points known only by their inner products A = F F^T.

    It is k-means of the rows of any such F; here F comes from the eigenvectors of A. If A has negative eigenvalues,
    the lowest is taken off the diagonal: that adds the same to the objective of every partition into K clusters.

    Raises:
        ConfigError: a setting has a value it cannot have, for example more clusters than points.
        DataError: A is not symmetric, or not of finite real numbers.
    """
    affinity_nn = _symmetric(affinity_nn)
    value_d, vector_nd = torch.linalg.eigh(affinity_nn.double())
    feature_nd = vector_nd * (value_d - value_d[0].clamp_max(0)).clamp_min(0).sqrt()
    seed = int(torch.randint(2**31, (), generator=generator))
    k_means = KMeans(n_clusters, n_init=n_init, max_iter=max_iter, tol=0, random_state=seed)
    k_means.fit(feature_nd)
    size_k = k_means.labels_.bincount(minlength=n_clusters).clamp_min(1)
    one_hot_nk = torch.nn.functional.one_hot(k_means.labels_, n_clusters).double()
    inside_k = torch.einsum("nk,nm,mk->k", one_hot_nk, affinity_nn.double(), one_hot_nk)
    objective = affinity_nn.double().trace() - (inside_k / size_k).sum()
    return KernelKMeansResult(k_means.labels_, float(objective), k_means.n_iter_)


def _symmetric(affinity: Rows) -> Tensor:
    """Return A as float32 or float64; raise `DataError` where it is no symmetric matrix of finite real numbers."""
    affinity_nn = _real(affinity, "affinity")
    shape = tuple(affinity_nn.shape)
    if len(shape) != 2 or shape[0] != shape[1] or not shape[0]:
        raise DataError(f"affinity must be a symmetric matrix, got shape {shape}")
    if not torch.isfinite(affinity_nn).all():
        raise DataError("affinity has NaN or infinite values; remove or correct those rows and columns")
    if not torch.allclose(affinity_nn, affinity_nn.T, rtol=ASYMMETRY, atol=ASYMMETRY * float(affinity_nn.abs().max())):
        most = float((affinity_nn - affinity_nn.T).abs().max())
        raise DataError(
            f"affinity must be a symmetric matrix, but differs from its transpose by up to {most:.3g}; "
            f"use (A + A^T) / 2 if that is intended"
        )
    return affinity_nn


def _real(values: Rows, name: str) -> Tensor:
    """Return numbers as float32 or float64, whole ones as float64; raise `DataError` for what is none."""
    tensor = as_tensor(values, name, "float32 or float64")
    if tensor.is_complex():
        raise DataError(f"{name} must hold real numbers, got {str(tensor.dtype).removeprefix('torch.')}")
    if not tensor.is_floating_point():
        return tensor.double()
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()


def _squared(affinity_nn: Tensor) -> Tensor:
    """Return A; raise `DataError` where |A|_F^2 is too large, or too small for all its digits to be kept."""
    size = float(affinity_nn.square().sum())
    if not math.isfinite(size) or (size < torch.finfo(affinity_nn.dtype).tiny and affinity_nn.any()):
        least, most = (float(end) for end in affinity_nn.aminmax())
        raise DataError(f"affinity from {least:.1g} to {most:.1g} overflows when squared; rescale it")
    return affinity_nn


def _checked_start(start: Rows, affinity_nn: Tensor) -> Tensor:
    """Return the start in the type of A; raise `DataError` where it does not fit A or has no finite loss."""
    start_nk = _real(start, "start")
    if start_nk.ndim != 2 or len(start_nk) != len(affinity_nn):
        shape = f"({len(affinity_nn)}, columns of H)"
        raise DataError(f"the start must have shape {shape}, as the affinity has rows, got {tuple(start_nk.shape)}")
    if not torch.isfinite(start_nk).all():
        raise DataError("the start has NaN or infinite values; correct them")
    if (start_nk < 0).any():
        raise DataError(f"the start must not be negative; its smallest entry is {float(start_nk.min()):.3g}")
    h_nk = start_nk.to(affinity_nn)
    if not math.isfinite(_loss(affinity_nn, h_nk)):
        ends = f"affinity up to {float(affinity_nn.abs().max()):.1g} and start up to {float(start_nk.max()):.1g}"
        raise DataError(f"{ends} overflow when squared; rescale them")
    return h_nk


def _loss(affinity_nn: Tensor, h_nk: Tensor) -> float:
    return float((affinity_nn - h_nk @ h_nk.T).square().sum())


def _stepper(affinity_nn: Tensor, solver: Solver) -> Callable[[Tensor], Tensor]:
    if solver == "multiplicative":
        plus_nn, minus_nn = affinity_nn.clamp_min(0), (-affinity_nn).clamp_min(0)
        return lambda h_nk: _multiplicative_step(plus_nn, minus_nn, h_nk)
    if solver == "projected-gradient":
        return _ProjectedGradient(affinity_nn)
    raise ConfigError("solver", solver, "must be multiplicative or projected-gradient")


def _multiplicative_step(plus_nn: Tensor, minus_nn: Tensor, h_nk: Tensor) -> Tensor:
    """Return H * (A+ H / (A- H + H H^T H))^(1/4).

    The fourth root makes it the minimiser of a function that lies above the loss and touches it at H, so the loss
    never rises, for any symmetric A = A+ - A-. Bounds of the three terms: log for A+, and h^2 / h' <= (h^4 / h'^3 +
    h') / 2 to bring A- to the fourth power that H H^T H has anyway.
    """
    down_nk = minus_nn @ h_nk + h_nk @ (h_nk.T @ h_nk)
    return h_nk * (plus_nn @ h_nk / down_nk.clamp_min(torch.finfo(h_nk.dtype).tiny)).pow(0.25)


class _ProjectedGradient:
    """Steps along the gradient 4 (H H^T H - A H), cut off at 0; the step length grows while the loss falls."""

    def __init__(self, affinity_nn: Tensor) -> None:
        self.affinity_nn = affinity_nn
        self.length: float | None = None

    def __call__(self, h_nk: Tensor) -> Tensor:
        """Return H after one step that lowers the loss as Armijo's rule asks, or H itself where none does."""
        gradient_nk = 4 * (h_nk @ (h_nk.T @ h_nk) - self.affinity_nn @ h_nk)
        loss = _loss(self.affinity_nn, h_nk)
        if self.length is None:
            curvature = 4 * float(torch.linalg.matrix_norm(self.affinity_nn) + 3 * h_nk.square().sum())
            self.length = 1 / max(curvature, torch.finfo(h_nk.dtype).tiny)
        self.length *= 2
        for _ in range(60):
            next_nk = (h_nk - self.length * gradient_nk).clamp_min(0)
            expected = float((gradient_nk * (h_nk - next_nk)).sum())
            if _loss(self.affinity_nn, next_nk) <= loss - 1e-4 * expected:
                return next_nk
            self.length /= 2
        return h_nk
