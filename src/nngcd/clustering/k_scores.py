"""What clusterings of all images tell about the number of classes: with labels by counting pairs, without by shape."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import silhouette_samples

from nngcd.metrics.matching import contingency

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]


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


def count_pairs(cluster_n: Ids, class_n: Ids) -> PairCounts:
    """Count the pairs of one clustering; `class_n` is -1 for unlabelled images."""
    size_k, n_rows = np.bincount(cluster_n).astype(np.float64), len(cluster_n)
    is_labelled_n = class_n >= 0
    count_kc = contingency(cluster_n[is_labelled_n], class_n[is_labelled_n]).astype(np.float64)
    together_cc = count_kc.T @ count_kc - np.diag(count_kc.sum(0))
    return PairCounts(float((size_k * (size_k - 1)).sum() / (n_rows * (n_rows - 1))), together_cc)


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
    clusterings: list[PairCounts], n_images_c: Floats, n_images: int, rng: np.random.Generator, *, n_draws: int = 200
) -> Evidence | None:
    """Return 1 / K as the clusterings together say, with its standard error; None if they cannot tell.

    The error has two parts: which classes happen to be labelled (a bootstrap over the classes, the same draws for all
    clusterings), and the chance in the clusterings, which shows in how they differ.
    """
    n_old = len(n_images_c)
    draw_sc = np.vstack([np.ones(n_old), rng.multinomial(n_old, np.full(n_old, 1 / n_old), n_draws)])
    share_gs = np.array(
        [[same_class_share(pairs, n_images_c, times_c) for times_c in draw_sc] for pairs in clusterings]
    )
    share_gs = share_gs[np.isfinite(share_gs[:, 0]) & (np.isfinite(share_gs).mean(1) > 0.5)]
    is_known_s = np.isfinite(share_gs).all(0)
    share_gs, draw_sc = share_gs[:, is_known_s], draw_sc[is_known_s]
    if len(share_gs) == 0 or len(draw_sc) < 3:
        return None
    weight_g = _weights(share_gs[:, 1:].var(1))
    share_s = weight_g @ share_gs
    chance = float(weight_g**2 @ (share_gs[:, 0] - share_s[0]) ** 2)
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
    precision_g = 1 / (variance_g + np.median(variance_g) + np.finfo(np.float64).tiny)
    weight_g: Floats = precision_g / precision_g.sum()
    return weight_g


def silhouette_of_rows(features_nd: Floats, cluster_n: Ids) -> Floats:
    """Return the silhouette of each row, in [-1, 1]; 0 for all where it has no meaning."""
    n_found = len(np.unique(cluster_n))
    if not 2 <= n_found < len(cluster_n):
        return np.zeros(len(cluster_n))
    silhouette_n: Floats = np.nan_to_num(silhouette_samples(features_nd, cluster_n)).astype(np.float64)
    return silhouette_n
