"""Statistics of the matrix of all cosine similarities, computed without storing it: NN-GCD's A-bar figures as numbers.

The paper's theory is about another matrix, the co-occurrence of augmented views (`research.theory.snmf_loss`);
its figures show the cosine similarities of features, and so does this.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from nngcd.core.seeds import numpy_generator
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
    n_pair_images: int
    """Images whose pairs sparsity and negative mass were counted over: all of them, or a sample."""
    old_sparsity_error: float
    """Standard error of `old_sparsity` from sampling; 0 where all images were used."""
    new_sparsity_error: float
    """The same for `new_sparsity`."""
    negative_mass_error: float
    """The same for `negative_mass`."""


def cooccurrence_statistics(  # noqa: PLR0913 (the images, then what is optional)
    features_nd: ArrayLike,
    class_: ArrayLike,
    is_old: ArrayLike,
    *,
    threshold: float = 0.1,
    block_size: int = 2048,
    max_pair_images: int | None = 20_000,
    seed: int = 0,
) -> CooccurrenceStatistics:
    """Return statistics of the N x N cosine similarities, of which at most `block_size` squared exist at a time.

    Means, effective rank and active dimensions come from sums over the images: always exact, in time proportional to
    N. Sparsity and negative mass have to look at every pair. Up to `max_pair_images` images they do; of more images
    they are estimated from all pairs of a uniform sample of that many, with their standard errors (which of a group
    with only a few images in the sample are rough). A zero feature has similarity 0 with everything.

    Args:
        features_nd: features, of any length.
        class_: (n,) class of each image, true or found.
        is_old: (n,) whether that class is old.
        threshold: below this, a similarity counts as none.
        block_size: rows and columns of a block; changes memory and speed, not the result.
        max_pair_images: the size of the sample; None: every pair of all images, in time proportional to N squared.
        seed: decides which images are sampled.

    Raises:
        ValueError: the arrays differ in length, the features are not a table of finite numbers, or
            `max_pair_images` is below 2.
    """
    features, class_, is_old = _table(features_nd), as_ids("class_", class_), np.asarray(is_old, dtype=bool)
    check_same_length(features_nd=features, class_=class_, is_old=is_old)
    if max_pair_images is not None and max_pair_images < 2:
        raise ValueError(f"max_pair_images must be at least 2, as pairs need two images, got {max_pair_images}")
    sums = _sums(features, class_, is_old, block_size)
    old, new = (_group(sums, is_group_c) for is_group_c in (sums.is_old_c, ~sums.is_old_c))
    rows = _sample(len(features), max_pair_images, seed)
    is_old_m, unsampled = is_old[rows], 1 - len(rows) / max(len(features), 1)
    pairs = _pairs(_unit(features[rows]), class_[rows], is_old_m, threshold=threshold, block_size=block_size)
    old_sparsity, new_sparsity = (
        _share(pairs.n_small_m[is_group_m], pairs.n_between_m[is_group_m], unsampled)
        for is_group_m in (is_old_m, ~is_old_m)
    )
    negative_mass = _share(pairs.negative_m, pairs.absolute_m, unsampled)
    return CooccurrenceStatistics(
        old_within=_ratio(old.within_sum, old.n_within),
        new_within=_ratio(new.within_sum, new.n_within),
        old_between=_ratio(old.between_sum, old.n_between),
        new_between=_ratio(new.between_sum, new.n_between),
        old_new=_ratio(float(old.sum_d @ new.sum_d), old.n_images * new.n_images),
        old_sparsity=old_sparsity.value,
        new_sparsity=new_sparsity.value,
        negative_mass=negative_mass.value,
        effective_rank=_effective_rank(sums.gram_dd),
        active_dimensions=int((sums.largest_d > ACTIVE).sum()),
        n_pair_images=len(rows),
        old_sparsity_error=old_sparsity.error,
        new_sparsity_error=new_sparsity.error,
        negative_mass_error=negative_mass.error,
    )


def cooccurrence_image(features_nd: ArrayLike, order: ArrayLike, size: int = 256) -> NDArray[np.float64]:
    """Return the matrix of cosine similarities as a picture: (size, size) means over equal patches, or (n, n) if small.

    The mean over a patch is the product of the mean features of its rows and columns, so nothing large is made.

    Args:
        features_nd: features, of any length.
        order: which image is in which row and column, for example sorted by class; may leave images out.
        size: pixels of a side at most.
    """
    features, rows = _table(features_nd), as_ids("order", order)
    n_pixels = min(size, len(rows))
    if n_pixels < 1:
        raise ValueError(f"size and the number of images must be at least 1, got {size} and {len(rows)}")
    edges = np.arange(n_pixels + 1) * len(rows) // n_pixels
    patches = (_unit(features[rows[start:end]]) for start, end in pairwise(edges))
    means_pd = np.stack([unit_bd.mean(axis=0, dtype=np.float64) for unit_bd in patches])
    image: NDArray[np.float64] = means_pd @ means_pd.T
    return image


class _Sums(NamedTuple):
    """Sums from one pass over the images: over each class (c), old and new ones apart, and over all images."""

    is_old_c: NDArray[np.bool_]
    n_images_c: NDArray[np.int64]
    sum_cd: NDArray[np.float64]
    square_c: NDArray[np.float64]
    gram_dd: NDArray[np.float64]
    largest_d: NDArray[np.float64]


def _sums(features: NDArray[Any], class_: NDArray[np.int64], is_old: NDArray[np.bool_], block_size: int) -> _Sums:
    # A class id that is old for some images and new for others is two classes, as it is two groups.
    code_c, index_n, n_images_c = np.unique(2 * class_ + is_old, return_inverse=True, return_counts=True)
    n_features = features.shape[1]
    sum_cd, square_c = np.zeros((len(code_c), n_features)), np.zeros(len(code_c))
    gram_dd, largest_d = np.zeros((n_features, n_features)), np.zeros(n_features)
    for start in range(0, len(features), block_size):
        unit_bd = _unit(features[start : start + block_size]).astype(np.float64)
        index_b, n_rows = index_n[start : start + block_size], len(unit_bd)
        # A product with the membership is many times faster than `np.add.at`.
        is_in_bc = csr_array((np.ones(n_rows), index_b, np.arange(n_rows + 1)), shape=(n_rows, len(code_c)))
        sum_cd += np.asarray(is_in_bc.T @ unit_bd)
        square_c += np.bincount(index_b, np.square(unit_bd).sum(axis=1), minlength=len(code_c))
        gram_dd += unit_bd.T @ unit_bd
        largest_d = np.maximum(largest_d, np.abs(unit_bd).max(axis=0))
    return _Sums(code_c % 2 == 1, n_images_c, sum_cd, square_c, gram_dd, largest_d)


class _Similarities(NamedTuple):
    """Sums of similarities among the old, or among the new images."""

    n_images: int
    sum_d: NDArray[np.float64]
    within_sum: float
    n_within: int
    between_sum: float
    n_between: int


def _group(sums: _Sums, is_group_c: NDArray[np.bool_]) -> _Similarities:
    sizes, sums_cd = sums.n_images_c[is_group_c], sums.sum_cd[is_group_c]
    n_images, sum_d = int(sizes.sum()), sums_cd.sum(axis=0)
    same_class, n_same_class = float(np.square(sums_cd).sum()), int(np.square(sizes).sum())
    return _Similarities(
        n_images=n_images,
        sum_d=sum_d,
        within_sum=same_class - float(sums.square_c[is_group_c].sum()),
        n_within=n_same_class - n_images,
        between_sum=float(sum_d @ sum_d) - same_class,
        n_between=n_images**2 - n_same_class,
    )


def _sample(n_images: int, max_pair_images: int | None, seed: int) -> NDArray[np.int64]:
    """Return the images whose pairs are looked at, in their own order."""
    if max_pair_images is None or n_images <= max_pair_images:
        return np.arange(n_images)
    drawn = numpy_generator(seed, "co-occurrence").choice(n_images, max_pair_images, replace=False, shuffle=False)
    return np.sort(drawn)


class _Pairs(NamedTuple):
    """Of each image (m): sums over its pairs with all others."""

    n_small_m: NDArray[np.int64]
    """Images of other classes, old for an old and new for a new image, with a similarity below the threshold."""
    n_between_m: NDArray[np.int64]
    """The same with any similarity."""
    negative_m: NDArray[np.float64]
    absolute_m: NDArray[np.float64]


def _pairs(
    unit_md: NDArray[Any], class_m: NDArray[np.int64], is_old_m: NDArray[np.bool_], *, threshold: float, block_size: int
) -> _Pairs:
    n_images = len(unit_md)
    counts_2m, masses_2m = np.zeros((2, n_images), np.int64), np.zeros((2, n_images))
    found = _Pairs(*counts_2m, *masses_2m)
    for rows, columns in _block_pairs(n_images, block_size):
        similarity = unit_md[rows] @ unit_md[columns].T
        if rows == columns:
            np.fill_diagonal(similarity, 0)  # no image is paired with itself
        magnitude = np.abs(similarity)
        is_between = (class_m[rows, None] != class_m[columns]) & (is_old_m[rows, None] == is_old_m[columns])
        values = ((magnitude < threshold) & is_between, is_between, -np.minimum(similarity, 0), magnitude)
        for total_m, value in zip(found, values, strict=True):
            total_m[rows] += value.sum(axis=1, dtype=total_m.dtype)
            if rows != columns:  # the block's mirror image is not made
                total_m[columns] += value.sum(axis=0, dtype=total_m.dtype)
    return found


def _block_pairs(n_images: int, block_size: int) -> Iterator[tuple[slice, slice]]:
    """Give the blocks on and above the diagonal; those above also stand for their mirror images."""
    for start in range(0, n_images, block_size):
        for other in range(start, n_images, block_size):
            yield slice(start, start + block_size), slice(other, other + block_size)


class _Estimate(NamedTuple):
    value: float
    error: float


def _share(part_m: NDArray[Any], whole_m: NDArray[Any], unsampled: float) -> _Estimate:
    """Return sum(part) / sum(whole) over pairs of sampled images, and its standard error.

    Pairs that share an image are not independent; images are. To first order (Hoeffding 1948) a mean over pairs errs by
    twice the mean of what each image's own pairs differ from it, and a share by that of part - share * whole. That is
    right for large samples and too large for small ones. With the share of the images that is not in the sample,
    `unsampled`, it falls to 0.
    """
    whole = float(whole_m.sum())
    if not whole > 0:
        return _Estimate(float("nan"), float("nan"))
    share = float(part_m.sum()) / whole
    return _Estimate(share, 2 * float(np.linalg.norm(part_m - share * whole_m)) / whole * unsampled**0.5)


def _effective_rank(gram_dd: NDArray[np.float64]) -> float:
    # The N x N matrix has the same eigenvalues, and zeros.
    value_d = np.linalg.eigvalsh(gram_dd).clip(min=0)
    if not value_d.sum() > 0:
        return float("nan")
    share_d = value_d / value_d.sum()
    share_d = share_d[share_d > 0]  # not the eigenvalues: a tiny one has a share of 0
    return float(np.exp(-(share_d * np.log(share_d)).sum()))


def _table(features_nd: ArrayLike) -> NDArray[Any]:
    features = np.asarray(features_nd)
    if features.ndim != 2:
        raise ValueError(f"features must be a table of finite numbers (images, features), got shape {features.shape}")
    return features


def _unit(features_bd: NDArray[Any]) -> NDArray[Any]:
    """Return some rows at unit length, as float32 if they are that, otherwise as float64."""
    features_bd = features_bd if features_bd.dtype in (np.float32, np.float64) else features_bd.astype(np.float64)
    if not np.isfinite(features_bd).all():
        raise ValueError("features must be a table of finite numbers, found NaN or infinity; leave such images out")
    norm_b1 = np.linalg.norm(features_bd, axis=1, keepdims=True)
    unit_bd: NDArray[Any] = features_bd / np.where(norm_b1 > 0, norm_b1, 1)
    return unit_bd


def _ratio(total: float, count: float) -> float:
    return float(total / count) if count > 0 else float("nan")
