"""Known clusters that hide a new category: labels show it, because a part without labelled images is something else.

If the labelled images of a category are a random share of it, every larger part of the category holds about that share.
A part of its cluster that holds far fewer is of another category, which looks alike and was swallowed
(docs/paper/theory.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from scipy.stats import binom, hypergeom
from torch import Tensor

LEAST_IMAGES = 3
"""Of a part: fewer say nothing at any level."""
LEAST_LABELS = 6
"""Of a known category: with fewer labelled images no test can speak."""
MOST_ROUNDS = 50
"""The two centres of a cluster hardly ever move longer."""
OWN_LEVEL = 0.05
"""Largest accepted chance of so few labels if the cluster's own labels were dealt out to its images at random: some
categories may be labelled less than others."""
PLAIN_LEVEL = 0.1
"""The same, where the images lie in plain features: training draws labelled images together, so that in
learned features other images of their category can look like something else."""
START_SHARE = 0.2
"""Share of a cluster's images, those furthest from its labelled ones, that the second centre starts at."""


class HiddenPart(NamedTuple):
    """A part of a known cluster that is of another category."""

    cluster: int
    image_m: Tensor
    """Its unlabelled images."""
    n_part: int
    """Images of the part, including the labelled ones within it."""
    n_images: int
    """Images of the whole cluster."""
    n_labelled_in_part: int
    n_labelled: int
    """Labelled images of the known category."""
    p_value: float
    """Chance of so few labelled images if the part belonged to a category labelled as the typical one is."""


class Cut(NamedTuple):
    """A known cluster that is cut in two."""

    cluster: int
    image_m: Tensor
    is_part_m: Tensor
    """Which of its images are on the side away from labelled ones; none where there is no such side."""


def hidden_parts(
    cuts: Sequence[Cut], plain_nd: Tensor, cluster_n: Tensor, labels_n: Tensor, *, n_old: int, level: float
) -> list[HiddenPart]:
    """Return the parts of known clusters that hold too few labelled images, the most certain first.

    Args:
        cuts: the known clusters, as `cut_known_clusters` cuts them.
        plain_nd: features that no label has touched, in which labelled images are counted once more.
        cluster_n: the cluster of each image; cluster k < n_old is old class k, and labelled images are in theirs.
        labels_n: -1 for unlabelled images.
        n_old: how many clusters are known.
        level: the share of the parts that may be wrong, on average.
    """
    is_labelled_n = labels_n >= 0
    share = typical_share(cluster_n, is_labelled_n, n_old)
    found = []
    for cluster, image_m, is_part_m in cuts:
        is_labelled_m = is_labelled_n[image_m]
        n_images, n_labelled = len(image_m), int(is_labelled_m.sum())
        if n_labelled < LEAST_LABELS:
            continue
        n_part, n_within = int(is_part_m.sum()), int((is_part_m & is_labelled_m).sum())
        is_rare = hypergeom.cdf(n_within, n_images, n_labelled, n_part) < OWN_LEVEL
        if is_rare and _is_rare_in_plain(plain_nd[image_m], is_part_m, is_labelled_m, share):
            p_value = float(binom.cdf(n_within, n_part, share))
            others_m = image_m[is_part_m & ~is_labelled_m]
            found.append(HiddenPart(cluster, others_m, n_part, n_images, n_within, n_labelled, p_value))
    return _not_by_chance(found, n_old, level)


def cut_known_clusters(unit_nd: Tensor, cluster_n: Tensor, labels_n: Tensor, n_old: int) -> list[Cut]:
    """Return the known clusters that have labelled and other images, each cut in two (`part_apart`).

    Args:
        unit_nd: learned features of length 1.
        cluster_n: the cluster of each image; cluster k < n_old is old class k, and labelled images are in theirs.
        labels_n: -1 for unlabelled images.
        n_old: how many clusters are known.
    """
    order_n = cluster_n.argsort(stable=True)
    image_k = torch.split(order_n, cluster_n.bincount(minlength=n_old).tolist())[:n_old]
    return [
        Cut(cluster, image_m, part_apart(unit_nd[image_m], labels_n[image_m] >= 0))
        for cluster, image_m in enumerate(image_k)
        if 0 < (labels_n[image_m] >= 0).sum() < len(image_m)
    ]


def _is_rare_in_plain(plain_md: Tensor, is_part_m: Tensor, is_labelled_m: Tensor, share: float) -> bool:
    """Whether the part also holds few labelled images in plain features."""
    is_near_m = nearer_to_part(plain_md, is_part_m & ~is_labelled_m)
    return bool(binom.cdf(int((is_near_m & is_labelled_m).sum()), int(is_near_m.sum()), share) < PLAIN_LEVEL)


def _not_by_chance(found: list[HiddenPart], n_tests: int, level: float) -> list[HiddenPart]:
    """Return the parts that Benjamini & Hochberg (1995) keep: of these, at most `level` are wrong in the mean."""
    found = sorted(found, key=lambda part: part.p_value)
    n_kept = [i for i, part in enumerate(found, 1) if part.p_value <= level * i / n_tests]
    return found[: max(n_kept, default=0)]


def typical_share(cluster_n: Tensor, is_labelled_n: Tensor, n_old: int) -> float:
    """Return the share of labelled images in the median known cluster.

    Clusters that have swallowed a category hold a smaller share than their category does, so that the median is rather
    too low than too high as long as they are fewer than half: the test errs towards silence.
    """
    n_k = cluster_n.bincount(minlength=n_old)[:n_old]
    n_labelled_k = cluster_n[is_labelled_n].bincount(minlength=n_old)[:n_old]
    has_labels_k = n_labelled_k > 0
    if not has_labels_k.any():
        return 0.0
    return float((n_labelled_k[has_labels_k] / n_k[has_labels_k]).median())


def part_apart(unit_md: Tensor, is_labelled_m: Tensor) -> Tensor:
    """Return is_part_m: the images of a cluster that are nearer to a second centre than to the labelled images' side.

    Two-means in which labelled images always count for the first centre; the second starts far from them and is the
    mean of unlabelled images only. Labelled images that are nearer to it still count against the part.

    Args:
        unit_md: features of the cluster's images, of length 1.
        is_labelled_m: which of them are labelled; where none is, the first centre starts at the mean of all images.
    """
    first_d = unit_md[is_labelled_m if is_labelled_m.any() else slice(None)].mean(0)
    cosine_m = (unit_md @ first_d).masked_fill(is_labelled_m, torch.inf)
    n_start = max(LEAST_IMAGES, int(START_SHARE * len(unit_md)))
    is_part_m = torch.zeros_like(is_labelled_m).index_fill(0, cosine_m.argsort(stable=True)[:n_start], True)
    for _ in range(MOST_ROUNDS):
        is_free_m = is_part_m & ~is_labelled_m
        is_rest_m = ~is_part_m | is_labelled_m
        if is_free_m.sum() < LEAST_IMAGES or not is_rest_m.any():
            return torch.zeros_like(is_labelled_m)
        is_near_m = _nearer(unit_md, unit_md[is_free_m].mean(0), first_d)
        if torch.equal(is_near_m, is_part_m):
            break
        is_part_m = is_near_m
        first_d = unit_md[~is_part_m | is_labelled_m].mean(0)
    return is_part_m


def nearer_to_part(plain_md: Tensor, is_part_m: Tensor) -> Tensor:
    """Return which images of a cluster are nearer to the mean of a part than to that of the rest.

    Each image is left out of its own mean: an image is near every mean it has a share in, and of the part only
    unlabelled images have one.
    """
    part_m1 = is_part_m.to(plain_md)[:, None]
    rest_m1 = 1 - part_m1
    part_md = ((part_m1 * plain_md).sum(0) - part_m1 * plain_md) / (part_m1.sum() - part_m1).clamp_min(1)
    rest_md = ((rest_m1 * plain_md).sum(0) - rest_m1 * plain_md) / (rest_m1.sum() - rest_m1).clamp_min(1)
    return _nearer(plain_md, part_md, rest_md)


def _nearer(x_md: Tensor, first_md: Tensor, second_md: Tensor) -> Tensor:
    return (x_md - first_md).square().sum(-1) < (x_md - second_md).square().sum(-1)
