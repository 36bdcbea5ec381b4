"""What the matrix of all cosine similarities looks like, without ever holding it: NN-GCD's A-bar figures as numbers.

The paper's theory is about another matrix, the co-occurrence of augmented views (`losses.ncl.snmf_loss`); its figures
show the cosine similarities of features, and so does this.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nngcd.metrics.matching import as_ids, check_same_length

ACTIVE = 1e-5
"""A feature axis is active where some unit feature is larger than this, in absolute value."""


@dataclass(frozen=True, slots=True)
class CooccurrenceStatistics:
    """Means and shares over ordered pairs of different images; nan where there is no such pair."""

    old_within: float
    """Mean similarity inside old classes: near 1 is wanted."""
    new_within: float
    """Mean similarity inside new classes: near 1 is wanted."""
    old_between: float
    """Mean similarity of different old classes: near 0 is wanted."""
    new_between: float
    """Mean similarity of different new classes: near 0 is wanted."""
    old_new: float
    """Mean similarity of an old and a new image: near 0, the classes are insulated (the paper once prints unity)."""
    old_sparsity: float
    """Share of the pairs of different old classes whose similarity is below the threshold in absolute value."""
    new_sparsity: float
    """The same for new classes."""
    negative_mass: float
    """Share that negative similarities have in the sum of absolute values; 0 for non-negative features."""
    effective_rank: float
    """exp(entropy) of the matrix's eigenvalues as shares of their sum (Roy & Vetterli 2007)."""
    active_dimensions: int
    """Feature axes that are not zero everywhere."""


def cooccurrence_statistics(
    features_nd: ArrayLike, class_: ArrayLike, is_old: ArrayLike, *, threshold: float = 0.1, block_size: int = 2048
) -> CooccurrenceStatistics:
    """Return statistics of the N x N cosine similarities, of which at most `block_size` squared exist at a time.

    Means come from the sums of classes, in time proportional to N; sparsity and negative mass have to look at every
    pair once. A zero feature has similarity 0 with everything.

    Args:
        features_nd: features, of any length.
        class_: (n,) class of each image, true or found.
        is_old: (n,) whether that class is old.
        threshold: below this, a similarity counts as none.
        block_size: rows and columns of a block; changes memory and speed, not the result.

    Raises:
        ValueError: the arrays differ in length, or the features are not a table of finite numbers.
    """
    unit_nd, class_, is_old = _unit(features_nd), as_ids("class_", class_), np.asarray(is_old, dtype=bool)
    check_same_length(features_nd=unit_nd, class_=class_, is_old=is_old)
    old, new = (_group(unit_nd[is_group], class_[is_group]) for is_group in (is_old, ~is_old))
    n_small, negative_mass = _stream(unit_nd, class_, is_old, threshold=threshold, block_size=block_size)
    return CooccurrenceStatistics(
        old_within=_ratio(old.within_sum, old.n_within),
        new_within=_ratio(new.within_sum, new.n_within),
        old_between=_ratio(old.between_sum, old.n_between),
        new_between=_ratio(new.between_sum, new.n_between),
        old_new=_ratio(float(old.sum_d @ new.sum_d), old.n_images * new.n_images),
        old_sparsity=_ratio(n_small[0], old.n_between),
        new_sparsity=_ratio(n_small[1], new.n_between),
        negative_mass=negative_mass,
        effective_rank=_effective_rank(unit_nd, block_size),
        active_dimensions=int((np.abs(unit_nd).max(axis=0, initial=0) > ACTIVE).sum()),
    )


def cooccurrence_image(features_nd: ArrayLike, order: ArrayLike, size: int = 256) -> NDArray[np.float64]:
    """Return the matrix of cosine similarities as a picture: (size, size) means over equal patches, or (n, n) if small.

    The mean over a patch is the product of the mean features of its rows and columns, so nothing large is made.

    Args:
        features_nd: features, of any length.
        order: which image is in which row and column, for example sorted by class; may leave images out.
        size: pixels of a side at most.
    """
    unit_nd, rows = _unit(features_nd), as_ids("order", order)
    n_pixels = min(size, len(rows))
    if n_pixels < 1:
        raise ValueError(f"size and the number of images must be at least 1, got {size} and {len(rows)}")
    starts = np.arange(n_pixels + 1) * len(rows) // n_pixels
    sums_pd = np.add.reduceat(unit_nd[rows], starts[:-1], axis=0, dtype=np.float64)
    means_pd = sums_pd / np.diff(starts)[:, None]
    image: NDArray[np.float64] = means_pd @ means_pd.T
    return image


@dataclass(frozen=True, slots=True)
class _Group:
    """Sums of similarities among the old, or among the new images."""

    n_images: int
    sum_d: NDArray[np.float64]
    within_sum: float
    n_within: int
    between_sum: float
    n_between: int


def _group(unit_nd: NDArray[Any], class_: NDArray[np.int64]) -> _Group:
    _, index, sizes = np.unique(class_, return_inverse=True, return_counts=True)
    sums_cd = np.zeros((len(sizes), unit_nd.shape[1]))
    np.add.at(sums_cd, index, unit_nd)
    sum_d = sums_cd.sum(axis=0)
    same_class = float(np.square(sums_cd).sum())
    with_itself = float(np.square(unit_nd).sum(dtype=np.float64))
    n_same_class = int(np.square(sizes).sum())
    return _Group(
        n_images=len(unit_nd),
        sum_d=sum_d,
        within_sum=same_class - with_itself,
        n_within=n_same_class - len(unit_nd),
        between_sum=float(sum_d @ sum_d) - same_class,
        n_between=len(unit_nd) ** 2 - n_same_class,
    )


def _stream(
    unit_nd: NDArray[Any], class_: NDArray[np.int64], is_old: NDArray[np.bool_], *, threshold: float, block_size: int
) -> tuple[tuple[int, int], float]:
    """Return how many pairs of different old (and new) classes are below the threshold, and the negative mass."""
    n_small = [0, 0]
    negative = absolute = 0.0
    for rows, columns, weight in _block_pairs(len(unit_nd), block_size):
        similarity = unit_nd[rows] @ unit_nd[columns].T
        if rows == columns:
            np.fill_diagonal(similarity, 0)  # no image is paired with itself
        magnitude = np.abs(similarity)
        absolute += weight * float(magnitude.sum(dtype=np.float64))
        negative -= weight * float(np.minimum(similarity, 0).sum(dtype=np.float64))
        is_small = (magnitude < threshold) & (class_[rows, None] != class_[columns])
        n_small[0] += weight * int(is_small[np.ix_(is_old[rows], is_old[columns])].sum())
        n_small[1] += weight * int(is_small[np.ix_(~is_old[rows], ~is_old[columns])].sum())
    return (n_small[0], n_small[1]), _ratio(negative, absolute)


def _block_pairs(n_images: int, block_size: int) -> Iterator[tuple[slice, slice, int]]:
    """Give the blocks on and above the diagonal; those above stand for their mirror images, too."""
    for start in range(0, n_images, block_size):
        for other in range(start, n_images, block_size):
            yield slice(start, start + block_size), slice(other, other + block_size), 1 if start == other else 2


def _effective_rank(unit_nd: NDArray[Any], block_size: int) -> float:
    gram_dd = np.zeros((unit_nd.shape[1], unit_nd.shape[1]))
    for start in range(0, len(unit_nd), block_size):
        block_bd = unit_nd[start : start + block_size].astype(np.float64)
        gram_dd += block_bd.T @ block_bd
    # The N x N matrix has the same eigenvalues, and zeros.
    value_d = np.linalg.eigvalsh(gram_dd).clip(min=0)
    if not value_d.sum() > 0:
        return float("nan")
    share_d = value_d[value_d > 0] / value_d.sum()
    return float(np.exp(-(share_d * np.log(share_d)).sum()))


def _unit(features_nd: ArrayLike) -> NDArray[Any]:
    features = np.asarray(features_nd)
    features = features if features.dtype in (np.float32, np.float64) else features.astype(np.float64)
    if features.ndim != 2 or not np.isfinite(features).all():
        raise ValueError(f"features must be a table of finite numbers (images, features), got shape {features.shape}")
    norm_n1 = np.linalg.norm(features, axis=1, keepdims=True)
    unit_nd: NDArray[Any] = features / np.where(norm_n1 > 0, norm_n1, 1)
    return unit_nd


def _ratio(total: float, count: float) -> float:
    return float(total / count) if count > 0 else float("nan")
