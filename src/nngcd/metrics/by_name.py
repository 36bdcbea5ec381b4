"""Accuracy by name, where an old cluster counts only as its own class, and how well known and new are told apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nngcd.metrics.accuracy import Accuracy, share_of
from nngcd.metrics.matching import as_ids, check_same_length, match_clusters


@dataclass(frozen=True, slots=True)
class Called:
    """Scores for calling images known (or new): shares in [0, 1]; nan if there is no such image."""

    share: float
    """Share of all images that are called known (or new)."""
    true_share: float
    """Share of all images that truly are known (or new)."""
    precision: float
    """Share of the images called known (or new) that truly are."""
    recall: float
    """Share of the truly known (or new) images that are called so."""


def by_name_accuracy(truth: ArrayLike, cluster: ArrayLike, n_old: int) -> Accuracy:
    """Return the accuracy by name: cluster k < n_old is old class k, the other clusters are matched to new classes.

    Examples:
        Six images, class 0 old and class 1 new. Cluster 0 is named after class 0 and holds one image of it:

        >>> truth, cluster = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 1, 0, 0, 1])
        >>> by_name_accuracy(truth, cluster, n_old=1)
        Accuracy(all=0.3333333333333333, old=0.3333333333333333, new=0.3333333333333333)

        Cluster 0 is right for 1 image of class 0. Cluster 1 can stand only for the new class 1, and is right for 1
        image: 2 of 6 in all, 1 of 3 old, 1 of 3 new. `split_accuracy` swaps the two and finds 4 of 6, though a user who
        reads the names sees 4 images under a wrong one.

    All is never above that of `split_accuracy`, which takes the best of all matchings; this is one of them.

    Args:
        truth: (n,) true class of each image, old classes first.
        cluster: (n,) cluster of each image; there may be more or fewer clusters than classes.
        n_old: the number of old classes.

    Raises:
        ValueError: the arrays differ in length, or hold negative ids.
    """
    truth, cluster = _checked(truth, cluster)
    is_old = truth < n_old
    is_right = (cluster < n_old) & (cluster == truth)
    # Only an image of a new class in a new cluster can be right by the matching, so no other image may decide it.
    is_matched = ~is_old & (cluster >= n_old)
    match = match_clusters(cluster[is_matched], truth[is_matched])
    is_right[is_matched] = match[cluster[is_matched]] == truth[is_matched]
    return Accuracy(all=share_of(is_right), old=share_of(is_right[is_old]), new=share_of(is_right[~is_old]))


def called_known(truth: ArrayLike, cluster: ArrayLike, n_old: int) -> Called:
    """Return how well images are called known, that is, put into any cluster of an old class.

    In the example of `by_name_accuracy` 3 of 6 images are called known, and 1 of these is: precision and recall are
    1/3. Arguments as there.
    """
    truth, cluster = _checked(truth, cluster)
    return _called(cluster < n_old, truth < n_old)


def called_new(truth: ArrayLike, cluster: ArrayLike, n_old: int) -> Called:
    """Return how well images are called new, that is, put into no cluster of an old class. Arguments as above."""
    truth, cluster = _checked(truth, cluster)
    return _called(cluster >= n_old, truth >= n_old)


def _called(is_called: NDArray[np.bool_], is_so: NDArray[np.bool_]) -> Called:
    return Called(
        share=share_of(is_called),
        true_share=share_of(is_so),
        precision=share_of(is_so[is_called]),
        recall=share_of(is_called[is_so]),
    )


def _checked(truth: ArrayLike, cluster: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    truth, cluster = as_ids("truth", truth), as_ids("cluster", cluster)
    check_same_length(truth=truth, cluster=cluster)
    return truth, cluster
