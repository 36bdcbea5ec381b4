"""How many classes there are, old and new together, with an interval and how far to trust it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.clustering.k_scores import (
    Evidence,
    Floats,
    Ids,
    count_pairs,
    evidence_of_pairs,
    silhouette_of_rows,
)
from nngcd.clustering.kmeans import KMeans, Rows, as_rows
from nngcd.core.errors import ConfigError, DataError
from nngcd.core.seeds import derive, numpy_generator

MAX_ROWS = 20_000
"""More images are sampled down to this many: the pairs of so many images leave the classes as the only uncertainty."""
MAX_FEATURES = 128
N_CLUSTERINGS = 16
N_SILHOUETTE_ROWS = 2000

Progress = Callable[[int, int], None]
Confidence = Literal["good", "fair", "low"]


@dataclass(frozen=True, slots=True)
class KEstimate:
    """The number of classes and how sure it is."""

    k: int
    low: int
    """Fewest classes whose score is within one standard error of the best."""
    high: int
    """Most such classes."""
    curve: tuple[tuple[int, float], ...]
    """(K, score), ascending in K; what the score is depends on the method."""
    method: Literal["pairs", "silhouette", "given"]
    """`pairs`: relative likelihood of K, 1 for the best, from how often labelled images share a cluster. `silhouette`:
    mean silhouette of k-means with K clusters. `given`: the range held one K only."""
    confidence: Confidence
    reason: str
    """Why the confidence is what it is, in plain words."""
    is_at_edge: bool
    """Whether the interval reaches an end of the range that could be moved: a wider one may hold a better K."""


def estimate_k(
    features_nd: Rows,
    labels_n: Rows,
    *,
    k_range: tuple[int, int] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> KEstimate:
    """Return the number of classes among all images, old and new.

    With at least 3 labelled classes, the share of pairs of one class is solved for from how often pairs share a
    cluster (`k_scores.same_class_share`), in k-means of many numbers of clusters. GCD's Max-ACC and CiPR's hold-out
    look for the K whose clusters match the labelled classes best instead; where classes overlap, that K is biased, by
    an amount that depends on how much they do. With fewer classes, it is the K of the best silhouette.

    Args:
        features_nd: (n, d) features; only their directions count.
        labels_n: (n,) label of each image, -1 for unlabelled.
        k_range: fewest and most classes to consider. None: from the labelled classes to as many as it takes.
        seed: of the starts of k-means and of the bootstrap.
        progress: called with (clusterings done, clusterings in all).

    Raises:
        DataError: features or labels cannot be used.
        ConfigError: the range holds no number of classes that there can be.
    """
    row_nd, label_n = as_rows(features_nd).cpu(), np.asarray(torch.as_tensor(labels_n).cpu())
    if label_n.shape != (len(row_nd),) or not np.issubdtype(label_n.dtype, np.integer):
        what = f"{label_n.dtype} of shape {label_n.shape}"
        raise DataError(f"labels must be {len(row_nd)} integers, one per row and -1 for unlabelled, got {what}")
    class_n = _numbered(label_n)
    n_old, n_images = int(class_n.max()) + 1, len(class_n)
    first, last = _checked_range(k_range, n_old, n_images)
    if first == last:
        only = "only one number of classes is possible here" if k_range is None else "the range holds one number only"
        return KEstimate(first, first, first, ((first, 1.0),), "given", "low", only, is_at_edge=False)
    x_nd, class_m = _reduced(row_nd, class_n, seed)
    evidence = _evidence(x_nd, class_m, n_images, seed, progress)
    if evidence is None:
        return _by_silhouette(x_nd, (first, last), n_old, seed, progress)
    if k_range is None:
        last = _wide_enough(evidence, last, n_images)
    return _by_pairs(evidence, (first, last), n_old, is_open_below=k_range is not None and first > n_old)


def _numbered(label_n: Ids) -> Ids:
    """Return the labels as 0, 1, 2, ... without gaps, -1 for every negative one."""
    class_n = np.full(len(label_n), -1, dtype=np.int64)
    is_labelled_n = label_n >= 0
    class_n[is_labelled_n] = np.unique(label_n[is_labelled_n], return_inverse=True)[1]
    return class_n


def _checked_range(k_range: tuple[int, int] | None, n_old: int, n_images: int) -> tuple[int, int]:
    if k_range is None:
        first = min(max(n_old, 2), n_images)
        return first, max(first, min(n_images // 2, max(4 * n_old, 30)))
    first, last = k_range
    if not 1 <= first <= last:
        raise ConfigError("k_range", k_range, "must be (fewest, most) with 1 <= fewest <= most")
    if last < n_old:
        raise ConfigError("k_range", k_range, f"must reach the {n_old} labelled classes; K counts old and new classes")
    if first > n_images:
        raise ConfigError("k_range", k_range, f"must not begin above the {n_images} images")
    return max(first, n_old, 1), min(last, n_images)


def _reduced(row_nd: Tensor, class_n: Ids, seed: int) -> tuple[Tensor, Ids]:
    """Return unit rows in their main directions, at most MAX_ROWS of them, and their classes."""
    if len(row_nd) > MAX_ROWS:
        keep = np.sort(numpy_generator(seed, "estimate_k rows").choice(len(row_nd), MAX_ROWS, replace=False))
        row_nd, class_n = row_nd[torch.from_numpy(keep)], class_n[keep]
    unit_nd = F.normalize(row_nd.float())
    unit_nd = unit_nd - unit_nd.mean(0)
    if unit_nd.shape[1] > MAX_FEATURES and len(unit_nd) > 1:
        covariance_dd = unit_nd.T.double() @ unit_nd.double()
        if not torch.isfinite(covariance_dd).all():
            raise DataError("the features hold NaN or infinite values; leave those rows out or mend them")
        unit_nd = (unit_nd.double() @ torch.linalg.eigh(covariance_dd)[1][:, -MAX_FEATURES:]).float()
    return unit_nd, class_n


def _evidence(x_nd: Tensor, class_n: Ids, n_images: int, seed: int, progress: Progress | None) -> Evidence | None:
    """Return what clusterings of n_old to N / 10 clusters say about 1 / K; None with too few labels to tell.

    The coarse ones have the pairs, the fine ones keep the classes apart; how much each is heard, their variances say.
    """
    class_n = _numbered(np.where(_is_paired(class_n), class_n, -1))
    n_old = int(class_n.max()) + 1
    if n_old < 3:
        return None
    most = max(len(x_nd) // 10, n_old + 1)
    n_clusters_g = np.geomspace(min(n_old, most), most, N_CLUSTERINGS).round().astype(int)
    clusterings = []
    for g, n_clusters in enumerate(n_clusters_g.tolist()):
        clusterings.append(count_pairs(_clusters(x_nd, min(n_clusters, len(x_nd)), derive(seed, g)), class_n))
        if progress is not None:
            progress(g + 1, N_CLUSTERINGS)
    n_images_c = np.bincount(class_n[class_n >= 0]).astype(np.float64)
    return evidence_of_pairs(clusterings, n_images_c, n_images, numpy_generator(seed, "estimate_k bootstrap"))


def _is_paired(class_n: Ids) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which images are of a class with at least two labelled ones: the others have no pair of one class."""
    size_c = np.bincount(class_n[class_n >= 0], minlength=1)
    is_paired_n: np.ndarray[tuple[int], np.dtype[np.bool_]] = (class_n >= 0) & (size_c[class_n] > 1)
    return is_paired_n


def _clusters(x_nd: Tensor, n_clusters: int, seed: int, *, n_init: int = 1) -> Ids:
    fitted = KMeans(n_clusters, n_init=n_init, max_iter=50, random_state=seed).fit(x_nd)
    cluster_n: Ids = fitted.labels_.numpy()
    return cluster_n


def _wide_enough(evidence: Evidence, last: int, n_images: int) -> int:
    """Return the end of the range, moved out to twice the interval's, or to N / 2 where there is none."""
    lowest = evidence.share - evidence.error
    wanted = 2 / lowest if lowest > 0 else n_images
    return max(last, min(n_images // 2, int(wanted)))


def _by_pairs(evidence: Evidence, k_range: tuple[int, int], n_old: int, *, is_open_below: bool) -> KEstimate:
    k_j = np.arange(k_range[0], k_range[1] + 1)
    misfit_j = np.abs(1 / k_j - evidence.share)
    best = int(misfit_j.argmin())
    within = k_j[misfit_j - misfit_j[best] <= evidence.error]
    k, low, high = int(k_j[best]), int(within[0]), int(within[-1])
    z_j = misfit_j / max(evidence.error, 1e-12)
    score_j = np.exp(-(z_j**2 - z_j[best] ** 2) / 2)
    confidence, reason = _confidence_of_pairs(k, low, high, n_old)
    is_at_edge = high == k_range[1] or (is_open_below and low == k_range[0])
    curve = tuple(zip(k_j.tolist(), score_j.tolist(), strict=True))
    return KEstimate(k, low, high, curve, "pairs", confidence, reason, is_at_edge)


def _confidence_of_pairs(k: int, low: int, high: int, n_old: int) -> tuple[Confidence, str]:
    """Return `good` for an interval of 15 % to either side, `fair` for 40 %, from enough classes to know its width."""
    width = (high - low) / (2 * k)
    classes = f"{n_old} labelled classes fit {low} to {high}"
    if n_old >= 10 and width <= 0.15:
        return "good", f"{classes}, a narrow interval"
    if n_old >= 5 and width <= 0.4:
        return "fair", f"{classes}; " + ("more labelled classes would narrow it" if width > 0.15 else "they are few")
    if n_old < 5:
        return "low", f"only {n_old} classes are labelled, too few to know what the others are like"
    return "low", f"{classes}, a wide interval: the features mix the classes, or the labelled ones differ much"


def _by_silhouette(
    x_nd: Tensor, k_range: tuple[int, int], n_old: int, seed: int, progress: Progress | None
) -> KEstimate:
    """Return the K of the best mean silhouette: on a coarse grid first, then between the neighbours of the best."""
    keep = np.sort(numpy_generator(seed, "silhouette").permutation(len(x_nd))[:N_SILHOUETTE_ROWS])
    first, last = max(k_range[0], min(2, k_range[1])), k_range[1]
    coarse = sorted(set(np.geomspace(first, last, 12).round().astype(int).tolist()))
    silhouettes: dict[int, Floats] = {}

    def score(numbers: list[int], n_before: int) -> int:
        for done, n_clusters in enumerate(numbers, start=1):
            cluster_n = _clusters(x_nd, n_clusters, derive(seed, n_clusters), n_init=3)
            silhouettes[n_clusters] = silhouette_of_rows(x_nd.numpy()[keep].astype(np.float64), cluster_n[keep])
            if progress is not None:
                progress(n_before + done, 2 * len(coarse))
        return max(silhouettes, key=lambda n_clusters: (silhouettes[n_clusters].mean(), -n_clusters))

    best = score(coarse, 0)
    at = coarse.index(best)
    around = np.linspace(coarse[max(at - 1, 0)], coarse[min(at + 1, len(coarse) - 1)], len(coarse)).round().astype(int)
    best = score(sorted(set(around.tolist()) - set(coarse)), len(coarse))
    if progress is not None:
        progress(2 * len(coarse), 2 * len(coarse))
    error = silhouettes[best].std() / len(keep) ** 0.5
    curve = tuple((k, float(silhouettes[k].mean())) for k in sorted(silhouettes))
    within = [k for k, mean in curve if mean >= silhouettes[best].mean() - error]
    why = "nothing is labelled" if n_old == 0 else "fewer than 3 classes have labels enough"
    reason = f"{why}, so that only the shape of the clusters could be looked at"
    return KEstimate(best, within[0], within[-1], curve, "silhouette", "low", reason, is_at_edge=within[-1] == last)
