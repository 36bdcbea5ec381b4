"""The one-to-one matching of clusters to classes behind every accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

UNMATCHED = -1
MOST_CELLS = 10**9


def contingency(cluster: ArrayLike, class_: ArrayLike) -> NDArray[np.int64]:
    """Return how many images lie in each cluster and class: (largest cluster + 1, largest class + 1) counts.

    Raises:
        ValueError: the arrays are not (n,) non-negative integers of one length, or hold ids of billions.
    """
    ids = {"cluster": as_ids("cluster", cluster), "class_": as_ids("class_", class_)}
    check_same_length(**ids)
    n_clusters, n_classes = (int(values.max(initial=-1)) + 1 for values in ids.values())
    if n_clusters * n_classes > MOST_CELLS:
        highest = f"cluster up to {n_clusters - 1} and class up to {n_classes - 1}"
        raise ValueError(f"ids are too high ({highest}) to count them; number both 0, 1, 2, ...")
    cell = ids["cluster"] * n_classes + ids["class_"]
    return np.bincount(cell, minlength=n_clusters * n_classes).reshape(n_clusters, n_classes)


def match_clusters(
    cluster: ArrayLike, class_: ArrayLike, *, is_preferred: NDArray[np.bool_] | None = None
) -> NDArray[np.int64]:
    """Return the class each cluster stands for (by cluster id) so that the most images agree: the Hungarian matching.

    No two clusters share a class. Empty clusters, and those left over when there are more clusters than classes, get
    `UNMATCHED`. Where several matchings are best, the one with the most preferred images is taken: how many images
    agree, and how many of the preferred ones, does not depend on how clusters and classes are numbered.

    Args:
        cluster: (n,) cluster of each image.
        class_: (n,) class of each image.
        is_preferred: (n,) images that decide between matchings which are equal otherwise; None for all alike.
    """
    counts = contingency(cluster, class_)
    if is_preferred is not None:
        # All preferred images together weigh less than one image more. Exact in float64, which the solver computes in,
        # up to 90 million images.
        preferred = np.zeros_like(counts)
        np.add.at(preferred, (np.asarray(cluster)[is_preferred], np.asarray(class_)[is_preferred]), 1)
        counts = counts * (len(is_preferred) + 1) + preferred
    match = np.full(len(counts), UNMATCHED)
    # The solver's choice among what is still equal depends on the order of the rows: by content, not by id.
    by_content = np.lexsort(counts.T[::-1]) if counts.size else np.arange(len(counts))
    rows = by_content[counts[by_content].any(axis=1)]
    columns = np.flatnonzero(counts.any(axis=0))
    row, column = linear_sum_assignment(counts[np.ix_(rows, columns)], maximize=True)
    match[rows[row]] = columns[column]
    return match


def as_ids(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Return the values as (n,) int64.

    Raises:
        ValueError: they are not one axis of non-negative integers; `name` tells which argument it was.
    """
    ids = np.asarray(values)
    if ids.ndim != 1:
        raise ValueError(f"{name} must have one axis, got shape {ids.shape}")
    if ids.size and not np.issubdtype(ids.dtype, np.integer):
        raise ValueError(f"{name} must hold integers, got {ids.dtype}")
    if ids.size and ids.min() < 0:
        raise ValueError(f"{name} must not hold negative ids, got {ids.min()}; leave such images out")
    return ids.astype(np.int64)


def check_same_length(**arrays: NDArray[Any]) -> None:
    """Raise `ValueError`, naming the arrays, unless all of them are equally long."""
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError("must be equally long: " + ", ".join(f"{name} has {n}" for name, n in lengths.items()))
