"""Estimate of the number of classes, old and new together, with an interval and a level of trust."""

from __future__ import annotations

import operator
import typing
from dataclasses import replace
from typing import Literal

import numpy as np
import torch

from nngcd.clustering.communities import check_infomap
from nngcd.clustering.points import Rows, as_labels, as_rows, check_directions, check_whole
from nngcd.core.errors import ConfigError, did_you_mean
from nngcd.core.progress import OnProgress
from nngcd.core.seeds import numpy_generator
from nngcd.counting.by_accuracy import by_accuracy
from nngcd.counting.by_communities import by_communities
from nngcd.counting.by_hold_out import by_hold_out
from nngcd.counting.by_pairs import by_pairs
from nngcd.counting.by_silhouette import by_silhouette
from nngcd.counting.scores import CountingTask, KEstimate, numbered, only_pairs

__all__ = ["CountingMethod", "KEstimate", "checked_method", "estimate_k"]

MAX_ROWS = 20_000
"""More images are sampled down to this many: the pairs of so many images leave the classes as the only uncertainty."""
LEAST_CLASSES = {"pairs": 3, "accuracy": 2, "hold-out": 2, "communities": 0, "silhouette": 0}
"""Classes with at least two labelled images that a method needs."""
LEAST_CLASSES_OF_AUTO = 5
"""With fewer, `pairs` cannot know how apart new classes are: it counts 5 in 6 blobs that lie far apart, 3 labelled."""

CountingMethod = Literal["auto", "pairs", "accuracy", "hold-out", "communities", "silhouette"]


def estimate_k(
    features_nd: Rows,
    labels_n: Rows,
    *,
    k_range: tuple[int, int] | None = None,
    method: CountingMethod = "auto",
    seed: int = 0,
    progress: OnProgress | None = None,
) -> KEstimate:
    """Return the number of classes among all images, old and new.

    Args:
        features_nd: (n, d) features; only their directions count.
        labels_n: (n,) label of each image, -1 for unlabelled.
        k_range: fewest and most classes to consider. None: from the labelled classes to as many as it takes, at most
            half the images.
        method: `pairs` (ours), `accuracy` (GCD's Max-ACC), `hold-out` (CiPR's), `communities` (DCCL's) or `silhouette`;
            the last two need no labels. Each is described in its file, such as `by_pairs.py`. `auto`: `pairs` with at
            least 5 classes of at least 2 labelled images, `silhouette` with fewer.
        seed: of the starts of k-means, of what is held out and of the bootstrap.
        progress: called with (steps done, steps in all).

    Raises:
        DataError: features or labels cannot be used.
        ConfigError: the method does not exist or needs more labels, or the range holds no possible number.
        ResourceError: it needs a package that is not installed.
    """
    method = checked_method(method)
    task = _task(features_nd, labels_n, k_range, seed, progress)
    n_paired = int(only_pairs(task.class_n).max()) + 1
    if method != "auto" and n_paired < LEAST_CLASSES[method]:
        needed = f"needs {LEAST_CLASSES[method]} classes with 2 labelled images each, got {n_paired}"
        raise ConfigError("method", method, f"{needed}; label more images, or use 'silhouette'")
    if task.first == task.last:
        images = "one image is" if task.n_images == 1 else f"{task.n_images} images are"
        classes = "class" if task.last == 1 else "classes"
        few = f"{images} too few to look for more than {task.last} {classes}; set K if you know it"
        narrow = f"the range allows only one number; labelled classes: {task.n_old}, images: {task.n_images}"
        only = narrow if task.is_range_given else few
        return KEstimate(task.first, task.first, task.first, ((task.first, 1.0),), "given", "low", only, False)
    estimate, most = _estimate(task, method, n_paired), len(task.class_n) // 2
    while not task.is_range_given and estimate.k == task.last < most:
        # The best is the last one looked at. Its steps have been told to the end by now.
        task = replace(task, last=min(4 * task.last, most), progress=lambda done, total: None)
        estimate = _estimate(task, method, n_paired)
    return estimate


def checked_method(name: str) -> CountingMethod:
    """Return the method of that name."""
    if name == "communities":
        check_infomap()
    for method in typing.get_args(CountingMethod):
        if method == name:
            return typing.cast(CountingMethod, method)
    names = typing.get_args(CountingMethod)
    raise ConfigError("method", name, f"must be one of {', '.join(names)}.{did_you_mean(str(name), names)}")


def _task(
    features_nd: Rows, labels_n: Rows, k_range: tuple[int, int] | None, seed: int, progress: OnProgress | None
) -> CountingTask:
    """Return what is known, checked, with at most MAX_ROWS images."""
    check_whole(seed=seed)
    row_nd = as_rows(features_nd).cpu()
    check_directions(row_nd)
    class_n = numbered(as_labels(labels_n, len(row_nd)).cpu().numpy())
    n_images, n_old = len(class_n), int(class_n.max()) + 1
    first, last = _checked_range(k_range, n_old, n_images)
    if n_images > MAX_ROWS:
        keep = np.sort(numpy_generator(seed, "estimate_k rows").choice(n_images, MAX_ROWS, replace=False))
        row_nd, class_n = row_nd[torch.from_numpy(keep)], numbered(class_n[keep])
        last = min(last, MAX_ROWS)
        if first > last:
            few = f"only so many of the {n_images:,} images are examined"
            reason = f"must begin at {MAX_ROWS:,} or below: {few}; give K instead"
            raise ConfigError("k_range", (first, n_images) if k_range is None else k_range, reason)
    show = progress or (lambda done, total: None)
    return CountingTask(row_nd, class_n, n_images, n_old, first, last, k_range is not None, seed, show)


def _checked_range(k_range: tuple[int, int] | None, n_old: int, n_images: int) -> tuple[int, int]:
    if k_range is None:
        first = min(max(n_old, 2), n_images)
        return first, max(first, min(n_images // 2, max(4 * n_old, 30)))
    try:
        first, last = (operator.index(end) for end in k_range)
    except (TypeError, ValueError):
        raise ConfigError("k_range", k_range, "must be (fewest, most), two whole numbers") from None
    if not 1 <= first <= last:
        raise ConfigError("k_range", k_range, "must be (fewest, most) with 1 <= fewest <= most")
    if last < n_old:
        raise ConfigError(
            "k_range",
            k_range,
            f"must reach at least {n_old}, the number of labelled classes; K counts old and new ones",
        )
    if first > n_images:
        raise ConfigError("k_range", k_range, f"must not begin above the {n_images} images")
    return max(first, n_old, 1), min(last, n_images)


def _estimate(task: CountingTask, method: CountingMethod, n_paired: int) -> KEstimate:
    """Return the estimate of a method, or by silhouette where it cannot tell."""
    if method == "silhouette":
        return by_silhouette(task, "this method does not use labels")
    if n_paired < LEAST_CLASSES_OF_AUTO and method == "auto":
        have = {0: "no class has", 1: "only 1 class has"}.get(n_paired, f"only {n_paired} classes have")
        why = "nothing is labelled" if task.n_old == 0 else f"{have} two or more labelled images"
        return by_silhouette(task, why)
    ways = {"accuracy": by_accuracy, "hold-out": by_hold_out, "communities": by_communities}
    why = "the images form no communities" if method == "communities" else "the labels are not conclusive"
    # Its steps have been told to the end by then, so that those of the silhouette are not told.
    return ways.get(method, by_pairs)(task) or by_silhouette(replace(task, progress=lambda done, total: None), why)
