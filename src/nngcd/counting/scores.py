"""Shared parts of all ways of estimating K: the task, the candidate numbers, and the evaluation of their scores."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import silhouette_samples
from torch import Tensor

from nngcd.clustering.points import Ids
from nngcd.core.progress import OnProgress
from nngcd.core.run_schemas import Trust
from nngcd.metrics.matching import match_clusters

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

N_DRAWS = 200
"""Bootstrap samples."""
ENOUGH_CLASSES = 10
"""Labelled classes from which a bootstrap over them can tell how much chance there is."""


@dataclass(frozen=True, slots=True)
class KEstimate:
    """The number of classes and how sure it is."""

    k: int
    low: int
    """Fewest classes of the interval. `pairs`: the most likely numbers that hold 80 % of the probability together, and
    at least one to either side. The other methods: numbers whose score is within one standard error of the best."""
    high: int
    """Most such classes."""
    curve: tuple[tuple[int, float], ...]
    """(K, score), ascending in K; what the score is depends on the method."""
    method: Literal["pairs", "accuracy", "hold-out", "communities", "silhouette", "given"]
    """`pairs`: the probability of at most K classes, or of at least K if that is smaller, from the size of the labelled
    ones, each K weighted by 1 / K for the least relative error. `accuracy`:
    share of the labelled images that k-means with K clusters gets right. `hold-out`: accuracy on classes whose labels
    were held out times silhouette, each from 0 to 1. `communities`: the share of counts that are at most K, or of those
    that are at least K if it is smaller. `silhouette`: mean silhouette of k-means with K clusters. `given`: the range
    held one K only."""
    confidence: Trust
    reason: str
    """Why the confidence is what it is, in plain words."""
    is_at_edge: bool
    """Whether the interval reaches an end of the range that could be moved: a wider one may hold a better K."""


@dataclass(frozen=True, slots=True)
class CountingTask:
    """Input of an estimate: features, labels, and the range of K."""

    features_nd: Tensor
    """Features of the images looked at, as they were given."""
    class_n: Ids
    """Their labelled class, 0, 1, 2, ... without gaps; -1 for unlabelled."""
    n_images: int
    """All images, of which those looked at may be a sample."""
    n_old: int
    """Labelled classes of all images."""
    first: int
    last: int
    is_range_given: bool
    seed: int
    progress: OnProgress

    def is_at_edge(self, low: int, high: int) -> bool:
        """Return whether an interval reaches an end of the range that the user could move."""
        return high >= self.last or (self.is_range_given and low <= self.first and self.first > max(self.n_old, 1))


class Steps:
    """Tells how much is done: once before each step would be too early, so after each; and at the end all of it."""

    def __init__(self, progress: OnProgress, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def advance(self) -> None:
        """Tell that one more step is done."""
        self._done += 1
        self._progress(self._done, self._total)

    def finish(self) -> None:
        """Tell that all is done, also where fewer steps than expected were needed."""
        if self._done < self._total:
            self._progress(self._total, self._total)


def numbered(label_n: Ids) -> Ids:
    """Return the labels as 0, 1, 2, ... without gaps, -1 for every negative one."""
    class_n = np.full(len(label_n), -1, dtype=np.int64)
    is_labelled_n = label_n >= 0
    class_n[is_labelled_n] = np.unique(label_n[is_labelled_n], return_inverse=True)[1]
    return class_n


def only_pairs(class_n: Ids) -> Ids:
    """Return the classes with at least two labelled images, numbered anew; the others have no pair of one class."""
    size_c = np.bincount(class_n[class_n >= 0], minlength=1)
    return numbered(np.where((class_n >= 0) & (size_c[class_n] > 1), class_n, -1))


def coarse_numbers(first: int, last: int, n_numbers: int) -> list[int]:
    """Return up to `n_numbers` of the range in steps of about one ratio, with both ends."""
    numbers: list[int] = np.geomspace(first, last, n_numbers).round().astype(int).tolist()
    return sorted(set(numbers))


def numbers_around(best: int, scored: Collection[int], n_numbers: int) -> list[int]:
    """Return up to `n_numbers` that lie between the neighbours of the best and have no score yet."""
    low = max((k for k in scored if k < best), default=best)
    high = min((k for k in scored if k > best), default=best)
    inner = np.setdiff1d(np.arange(low, high + 1), np.fromiter(scored, dtype=np.int64))
    if len(inner) > n_numbers:
        inner = inner[np.linspace(0, len(inner) - 1, n_numbers).round().astype(int)]
    numbers: list[int] = inner.tolist()
    return numbers


def best_number(scores: Mapping[int, float]) -> int:
    """Return the K of the best score, and of several the middle one: neither end of a flat top is more likely."""
    top = max(scores.values())
    tied = sorted(k for k, score in scores.items() if score >= top - 1e-12)
    return tied[(len(tied) - 1) // 2]


def right_by_class(cluster_n: Ids, class_n: Ids) -> Floats:
    """Return how many labelled images of each class are in the cluster that stands for it (Hungarian matching)."""
    is_labelled_n = class_n >= 0
    cluster_m, class_m = cluster_n[is_labelled_n], class_n[is_labelled_n]
    is_right_m = match_clusters(cluster_m, class_m)[cluster_m] == class_m
    return np.bincount(class_m[is_right_m], minlength=int(class_m.max()) + 1).astype(np.float64)


def bootstrap_draws(n_drawn: int, rng: np.random.Generator) -> Floats:
    """Return how often each of n counts: once in row 0, in the others as often as a bootstrap sample has drawn it."""
    return np.vstack([np.ones(n_drawn), rng.multinomial(n_drawn, np.full(n_drawn, 1 / n_drawn), N_DRAWS)])


def is_within_error(score_sj: Floats, best: int, n_drawn: int) -> Flags:
    """Return which scores lie below the best by no more than the standard error of that difference.

    Of the difference, because what makes all scores higher in one sample than in another says nothing about K.

    Args:
        score_sj: score of each K, first as it is, then in bootstrap samples.
        best: which one is the best.
        n_drawn: how many a sample has drawn, of classes for example.
    """
    loss_sj = score_sj[:, [best]] - score_sj
    # The bootstrap's variance is that of the mean of n draws times (n - 1) / n, which matters for few classes.
    error_j = loss_sj[1:].std(0) * (n_drawn / max(n_drawn - 1, 1)) ** 0.5
    is_within_j: Flags = loss_sj[0] <= error_j
    return is_within_j


def confidence_of(k: int, low: int, high: int, n_old: int) -> tuple[Trust, str]:
    """Return `good` for an interval of 15 % to either side, `fair` for 40 %, both from at least 10 labelled classes."""
    width = (high - low) / (2 * k)
    classes = f"{n_old} labelled classes fit {low} to {high}"
    if n_old < ENOUGH_CLASSES:
        return "low", f"only {n_old} classes are labelled, too few to predict the others"
    if width <= 0.15:
        return "good", f"{classes}, a narrow interval"
    if width <= 0.4:
        return "fair", f"{classes}; more labelled classes would narrow it"
    return "low", f"{classes}, a wide interval: the features mix the classes, or the labelled ones differ much"


def estimate_of_scores(
    task: CountingTask, method: Literal["accuracy", "hold-out"], k_j: list[int], score_sj: Floats, n_drawn: int
) -> KEstimate:
    """Return the estimate of a score that the bootstrap has varied; K ascending.

    It is never called good: where classes overlap, the best K of such a score is biased, and the interval, which is
    about chance only, does not know.
    """
    k = best_number(dict(zip(k_j, score_sj[0].tolist(), strict=True)))
    is_within_j = is_within_error(score_sj, k_j.index(k), n_drawn)
    within = [number for number, is_within in zip(k_j, is_within_j, strict=True) if is_within]
    low, high = within[0], within[-1]
    confidence, reason = confidence_of(k, low, high, task.n_old)
    if low == task.first:
        fit = f"{low} to {high} fit" if low < high else f"only {low} fits"
        confidence, reason = "low", f"{fit}, and {low} is the fewest to consider: this method may miss some"
    elif confidence == "good":
        confidence, reason = "fair", f"{reason}, but this method is inaccurate if classes overlap"
    curve = tuple(zip(k_j, score_sj[0].tolist(), strict=True))
    return KEstimate(k, low, high, curve, method, confidence, reason, task.is_at_edge(low, high))


def silhouette_of_rows(distance_nn: Floats, cluster_n: Ids) -> Floats:
    """Return the silhouette of each row, in [-1, 1]; 0 for all where it has no meaning."""
    n_found = len(np.unique(cluster_n))
    if not 2 <= n_found < len(cluster_n):
        return np.zeros(len(cluster_n))
    silhouette_n: Floats = np.nan_to_num(silhouette_samples(distance_nn, cluster_n, metric="precomputed"))
    return silhouette_n
