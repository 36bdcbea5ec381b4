"""K from how often labelled pairs of images share a cluster, compared with how often any pair does."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from torch import Tensor

from nngcd.clustering.k_scores import (
    ENOUGH_CLASSES,
    Floats,
    Ids,
    KEstimate,
    Steps,
    Task,
    bootstrap_draws,
    confidence_of,
    only_pairs,
)
from nngcd.clustering.kmeans import KMeans
from nngcd.clustering.whitening import whitened_within_classes
from nngcd.core.seeds import derive, numpy_generator
from nngcd.metrics.matching import contingency

N_CLUSTERINGS = 16
ROUNDING = 1e-18
"""Variances of shares far below this are not of the data: with it, clusterings that never vary weigh the same."""


class Evidence(NamedTuple):
    """An estimate of 1 / K and its standard error."""

    share: float
    error: float


class PairCounts(NamedTuple):
    """How often pairs of images share a cluster, in one clustering that has not seen the labels."""

    joined: float
    """Share of all pairs of images that share a cluster."""
    together_cc: Floats
    """Ordered pairs of labelled images in one cluster, by their two classes; no image is paired with itself."""
    n_clusters: int


def by_pairs(task: Task) -> KEstimate | None:
    """Return the K whose share of pairs of one class fits the clusterings best; None if they cannot tell.

    Ours, not a published way. The share of pairs of one class is solved for from how often pairs share a cluster
    (`same_class_share`), in k-means of many numbers of clusters. What GCD's Max-ACC and CiPR's hold-out look for, the K
    whose clusters match the labelled classes best, is biased where classes overlap, by how much they do; this is less
    so (`benchmarks/number_of_categories.py`).

    The features are whitened within the labelled classes: what makes images of one class differ is no sign of another.
    """
    class_n = only_pairs(task.class_n)
    evidence = _evidence(whitened_within_classes(task.features_nd, class_n), class_n, task)
    if evidence is None:
        return None
    if not task.is_range_given:
        task = replace(task, last=_wide_enough(evidence, task))
    k_j = np.arange(task.first, task.last + 1)
    misfit_j = np.abs(1 / k_j - evidence.share)
    best = int(misfit_j.argmin())
    within = k_j[misfit_j - misfit_j[best] <= evidence.error]
    k, low, high = int(k_j[best]), int(within[0]), int(within[-1])
    if task.n_old < ENOUGH_CLASSES:
        # The bootstrap of so few classes is too sure of itself: intervals of width 0 that miss the truth.
        low, high = max(min(low, k - 1), task.first), min(max(high, k + 1), task.last)
    z_j = misfit_j / max(evidence.error, 1e-12)
    score_j = np.exp(-(z_j**2 - z_j[best] ** 2) / 2)
    curve = tuple(zip(k_j.tolist(), score_j.tolist(), strict=True))
    confidence, reason = confidence_of(k, low, high, task.n_old)
    if misfit_j[best] > 2 * evidence.error and k in (task.first, task.last):
        # With a decimal: rounded to a whole number it may be an end of the range.
        pointed = f"{1 / max(evidence.share, 1e-9):,.1f}"
        confidence, reason = "low", f"the labels point to about {pointed}, outside the range"
    return KEstimate(k, low, high, curve, "pairs", confidence, reason, task.is_at_edge(low, high))


def _evidence(x_nd: Tensor, class_n: Ids, task: Task) -> Evidence | None:
    """Return what clusterings of n_old to N / 10 clusters say about 1 / K; None if they cannot tell.

    The coarse ones have the pairs, the fine ones keep the classes apart; how much each is heard, their variances say.
    """
    n_old = int(class_n.max()) + 1
    most = max(len(x_nd) // 10, n_old + 1)
    n_clusters_g = np.geomspace(min(n_old, most), most, N_CLUSTERINGS).round().astype(int)
    clusterings, steps = [], Steps(task.progress, N_CLUSTERINGS)
    for g, n_clusters in enumerate(n_clusters_g.tolist()):
        start = KMeans(min(n_clusters, len(x_nd)), n_init=1, max_iter=50, random_state=derive(task.seed, g))
        clusterings.append(count_pairs(start.fit(x_nd).labels_.numpy(), class_n))
        steps.advance()
    n_images_c = np.bincount(class_n[class_n >= 0]).astype(np.float64)
    rng = numpy_generator(task.seed, "estimate_k bootstrap")
    return evidence_of_pairs(clusterings, n_images_c, task.n_images, rng)


def _wide_enough(evidence: Evidence, task: Task) -> int:
    """Return the end of the range, moved out to twice the interval's, or to N / 2 where there is none."""
    lowest = evidence.share - evidence.error
    wanted = 2 / lowest if lowest > 0 else task.n_images
    return max(task.last, min(task.n_images // 2, int(wanted)))


def count_pairs(cluster_n: Ids, class_n: Ids) -> PairCounts:
    """Count the pairs of one clustering; `class_n` is -1 for unlabelled images."""
    size_k, n_rows = np.bincount(cluster_n).astype(np.float64), len(cluster_n)
    is_labelled_n = class_n >= 0
    count_kc = contingency(cluster_n[is_labelled_n], class_n[is_labelled_n]).astype(np.float64)
    together_cc = count_kc.T @ count_kc - np.diag(count_kc.sum(0))
    joined = float((size_k * (size_k - 1)).sum() / (n_rows * (n_rows - 1)))
    return PairCounts(joined, together_cc, int((size_k > 0).sum()))


def same_class_share(pairs: PairCounts, n_images_c: Floats, times_c: Floats) -> float:
    """Return the share s of all pairs of images that are of one class; nan where this clustering cannot tell.

    Let R be the probability that two images of one class share a cluster, Q that of two images of different classes.
    Labelled pairs show both. All pairs share a cluster with probability J = s R + (1 - s) Q, and J needs no label:
    s = (J - Q) / (R - Q). No clustering has to be right for that, nor to have K clusters; what is assumed is that old
    classes are like new ones, and labelled images like the others of their class.

    Args:
        pairs: the counts of the clustering.
        n_images_c: labelled images of each class.
        times_c: how often each class is counted: 1, or its number of draws in a bootstrap sample.
    """
    same_c = n_images_c * (n_images_c - 1)
    apart_cc = np.outer(n_images_c, n_images_c)
    np.fill_diagonal(apart_cc, 0)
    mixed_cc = pairs.together_cc - np.diag(np.diag(pairs.together_cc))
    n_same, n_apart = float(times_c @ same_c), float(times_c @ apart_cc @ times_c)
    if n_same == 0 or n_apart == 0:
        return float("nan")
    within = float(times_c @ np.diag(pairs.together_cc)) / n_same
    between = float(times_c @ mixed_cc @ times_c) / n_apart
    return (pairs.joined - between) / (within - between) if within > between else float("nan")


def size_spread(n_images_c: Floats, times_c: Floats, *, n_images: int, share: float) -> float:
    """Return 1 + the squared coefficient of variation of the class sizes, judged by the labelled images.

    K = this / s, because s is the sum of the squared shares of the classes. Labelled images are a sample of their
    class, so that their numbers vary even between classes of one size; that much is taken off.
    """
    mean = float(times_c @ n_images_c / times_c.sum())
    variance = float(times_c @ (n_images_c - mean) ** 2 / times_c.sum())
    labelled_share = min(1.0, mean / max(n_images * share, mean))
    return 1 + max(0.0, variance / mean**2 - (1 - labelled_share) / mean)


def evidence_of_pairs(
    clusterings: list[PairCounts], n_images_c: Floats, n_images: int, rng: np.random.Generator
) -> Evidence | None:
    """Return 1 / K as the clusterings together say, with its standard error; None if they cannot tell.

    The error has three parts: which classes happen to be labelled (a bootstrap over the classes, the same draws for all
    clusterings), the chance in the clusterings, which shows in how they differ, and what fine clusterings alone would
    say. A clustering of fewer clusters than classes merges some, and where these happen to be new ones, s is too large:
    of blobs far apart too few are counted, and by fine clusterings about the right number. But of the digits these
    count too many, because what is one class to us may be several clusters. So both are heard.
    """
    n_old = len(n_images_c)
    draw_sc = bootstrap_draws(n_old, rng)
    share_gs = np.array(
        [[same_class_share(pairs, n_images_c, times_c) for times_c in draw_sc] for pairs in clusterings]
    )
    is_told_g = np.isfinite(share_gs[:, 0]) & (np.isfinite(share_gs).mean(1) > 0.5)
    share_gs, n_clusters_g = share_gs[is_told_g], np.array([pairs.n_clusters for pairs in clusterings])[is_told_g]
    is_known_s = np.isfinite(share_gs).all(0)
    share_gs, draw_sc = share_gs[:, is_known_s], draw_sc[is_known_s]
    if len(share_gs) == 0 or len(draw_sc) < 3:
        return None
    variance_g = share_gs[:, 1:].var(1)
    weight_g = _weights(variance_g)
    share_s = weight_g @ share_gs
    chance = float(weight_g**2 @ (share_gs[:, 0] - share_s[0]) ** 2)
    is_fine_g = n_clusters_g * share_s[0] >= 1
    if is_fine_g.any():
        chance += float(_weights(variance_g[is_fine_g]) @ share_gs[is_fine_g, 0] - share_s[0]) ** 2
    # An image is of its own class: with the N pairs of an image and itself, s is the sum of the squared shares.
    share_s = share_s + (1 - share_s) / n_images
    spread_s = np.array([size_spread(n_images_c, times_c, n_images=n_images, share=share_s[0]) for times_c in draw_sc])
    k_share_s = share_s / spread_s
    # The bootstrap's variance is that of the mean of n draws times (n - 1) / n, which matters for few classes.
    variance = float(k_share_s[1:].var()) * n_old / (n_old - 1) + chance / spread_s[0] ** 2
    return Evidence(float(k_share_s[0]), variance**0.5)


def _weights(variance_g: Floats) -> Floats:
    """Return weights that sum to 1: a clustering that mixes the classes says little.

    The median is added because a variance near 0 is often luck: no labelled class happens to be merged with another,
    while new ones are.
    """
    precision_g = 1 / (variance_g + np.median(variance_g) + ROUNDING)
    weight_g: Floats = precision_g / precision_g.sum()
    return weight_g
