"""Clustering accuracy of old and new classes, in the three forms the field reports."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nngcd.metrics.matching import as_ids, check_same_length, match_clusters


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Shares of correctly clustered images, in [0, 1]; nan if there is no such image."""

    all: float
    old: float
    new: float


def split_accuracy(truth: ArrayLike, cluster: ArrayLike, is_old: ArrayLike) -> Accuracy:
    """Return the accuracy of the field's tables ("v2"): one matching of clusters to classes for all images.

    Examples:
        Six images, class 0 old and class 1 new. Cluster 0 holds all of class 0 and two thirds of class 1:

        >>> truth, cluster = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 0, 0, 0, 1])
        >>> split_accuracy(truth, cluster, is_old=truth == 0)
        Accuracy(all=0.6666666666666666, old=1.0, new=0.3333333333333333)

        Cluster 0 can stand for one class only. As class 0 it is right for 3 images, which leaves cluster 1 to class 1
        with 1 image: 4 of 6 in all, 3 of 3 old, 1 of 3 new. The other matching (0 for 1, 1 for 0) makes 2 + 0 right.

    Of several matchings with the most images right, the one with the most old images right counts. So none of the three
    numbers depends on how clusters and classes are numbered.

    Args:
        truth: (n,) true class of each image.
        cluster: (n,) cluster of each image; there may be more or fewer clusters than classes.
        is_old: (n,) whether the image's true class is old.

    Raises:
        ValueError: the arrays differ in length, or hold negative ids.
    """
    truth, cluster, is_old = _checked(truth, cluster, is_old)
    is_right = _is_right(truth, cluster, is_old)
    return Accuracy(all=share_of(is_right), old=share_of(is_right[is_old]), new=share_of(is_right[~is_old]))


def split_accuracy_v1(truth: ArrayLike, cluster: ArrayLike, is_old: ArrayLike) -> Accuracy:
    """Return the older accuracy ("v1"): old and new images are matched separately.

    One cluster may then stand for an old and a new class at once, so v1 does not measure how well they are told apart,
    and is never below `split_accuracy`. In the example there it is 5/6, 3/3 and 2/3. The arguments are the same.
    """
    truth, cluster, is_old = _checked(truth, cluster, is_old)
    is_right = np.zeros(len(truth), dtype=bool)
    for subset in (is_old, ~is_old):
        is_right[subset] = _is_right(truth[subset], cluster[subset], is_old[subset])
    return Accuracy(all=share_of(is_right), old=share_of(is_right[is_old]), new=share_of(is_right[~is_old]))


def balanced_accuracy(truth: ArrayLike, cluster: ArrayLike, is_old: ArrayLike) -> Accuracy:
    """Return the class-balanced accuracy ("v2b"): the matching of `split_accuracy`, each class counted equally.

    For data whose classes differ much in size, such as Herbarium 19. Only the mean is balanced, not the matching; where
    several have the most images right, and the most old ones, it can depend on how classes are numbered.
    Arguments as for `split_accuracy`.
    """
    truth, cluster, is_old = _checked(truth, cluster, is_old)
    is_right = _is_right(truth, cluster, is_old)
    return Accuracy(
        all=_class_mean(is_right, truth),
        old=_class_mean(is_right[is_old], truth[is_old]),
        new=_class_mean(is_right[~is_old], truth[~is_old]),
    )


def _checked(
    truth: ArrayLike, cluster: ArrayLike, is_old: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    truth, cluster, is_old = as_ids("truth", truth), as_ids("cluster", cluster), np.asarray(is_old, dtype=bool)
    if is_old.ndim != 1:
        raise ValueError(f"is_old must have one axis, got shape {is_old.shape}")
    check_same_length(truth=truth, cluster=cluster, is_old=is_old)
    return truth, cluster, is_old


def _is_right(truth: NDArray[np.int64], cluster: NDArray[np.int64], is_old: NDArray[np.bool_]) -> NDArray[np.bool_]:
    is_right: NDArray[np.bool_] = match_clusters(cluster, truth, is_preferred=is_old)[cluster] == truth
    return is_right


def share_of(values: NDArray[np.bool_]) -> float:
    """Return the share of values that are true; nan of none."""
    return float(values.mean()) if values.size else float("nan")


def _class_mean(is_right: NDArray[np.bool_], truth: NDArray[np.int64]) -> float:
    if not truth.size:
        return float("nan")
    n_images = np.bincount(truth)
    n_right = np.bincount(truth, weights=is_right)
    has_images = n_images > 0
    return float((n_right[has_images] / n_images[has_images]).mean())
