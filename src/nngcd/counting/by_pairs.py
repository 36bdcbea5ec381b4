"""K from how large the labelled classes are: all images, divided by the images of a class."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from torch import Tensor

from nngcd.clustering.points import Ids
from nngcd.clustering.whitening import main_directions
from nngcd.core.run_schemas import Trust
from nngcd.core.seeds import numpy_generator
from nngcd.counting.class_sizes import count_neighbours, mean_class_size
from nngcd.counting.known_share import known_share
from nngcd.counting.scores import ENOUGH_CLASSES, CountingTask, Floats, KEstimate, Steps, bootstrap_draws, only_pairs

BOTH_SIDES = 2.0
"""A hidden class is compared with known ones. Both could have been others, and the bootstrap varies the hidden ones."""
LEAST_ERROR = 0.05
"""Relative error of a piece of evidence that remains however many images there are."""
INSIDE = 0.8
"""Probability of the interval."""
ROUNDING = 1e-18
"""Variances of shares far below this are not of the data: with it, depths that never vary weigh the same."""
NARROW, WIDE = 0.15, 0.4
"""Half the width of an interval in units of K, up to which it is called good, and fair."""
MEASURED = (10, 200)
"""Fewest and most classes of the tasks on which coverage was measured (`benchmarks/k_intervals.py`)."""
HELD = 9
"""In how many of ten such tasks the true number was inside the interval, whatever its width."""


class Evidence(NamedTuple):
    """An estimate of 1 / K and its standard error."""

    share: float
    error: float


def by_pairs(task: CountingTask) -> KEstimate | None:
    """Return the K that follows from the size of the labelled classes; None if it cannot be determined.

    Ours, not a published way. A class has 1 / K of the images on average, and labelled classes are taken to be as large
    as others. Their size shows in two ways: how deep the neighbourhoods of labelled images hold their own class
    (`class_sizes`), and which share of all images looks like a labelled class (`known_share`). The first is better
    where most classes are new, the second where few are; each counts by its error.

    The features are whitened within labelled classes: differences within one class do not point to another.
    """
    class_n, steps = only_pairs(task.class_n), Steps(task.progress, 3)
    x_nd = main_directions(task.features_nd).float()
    steps.advance()
    pieces = [by_sizes(x_nd, class_n, numpy_generator(task.seed, "estimate_k sizes"))]
    steps.advance()
    pieces.append(by_known_share(x_nd, class_n, numpy_generator(task.seed, "estimate_k known share")))
    steps.finish()
    found = [piece for piece in pieces if piece is not None]
    if not found:
        return None
    return _estimate(task, combined(found), int(class_n.max()))


def by_sizes(x_nd: Tensor, class_n: Ids, rng: np.random.Generator) -> Evidence | None:
    """Return 1 / K by the sizes of the labelled classes, at all depths together; None if no depth tells.

    The error has two parts: which classes happen to be labelled (a bootstrap over the classes, the same draws for all
    depths), and how the depths and halves differ.
    """
    n_old = int(class_n.max()) + 1
    draw_sc = bootstrap_draws(n_old, rng)
    counted = count_neighbours(x_nd, class_n, rng)
    share_gs = np.array([mean_class_size(found, draw_sc) for found in counted]).reshape(-1, len(draw_sc)) / len(class_n)
    is_known_gs = np.isfinite(share_gs)
    is_told_g = is_known_gs[:, 0] & (is_known_gs.mean(1) > 0.5)
    if not is_told_g.any():
        return None
    share_gs = np.where(is_known_gs, share_gs, share_gs[:, :1])[is_told_g]
    weight_g = _weights(share_gs[:, 1:].var(1))
    share_s = weight_g @ share_gs
    chance = float(weight_g**2 @ (share_gs[:, 0] - share_s[0]) ** 2)
    # The bootstrap's variance is that of the mean of n draws times (n - 1) / n, which matters for few classes.
    return Evidence(float(share_s[0]), (float(share_s[1:].var()) * n_old / (n_old - 1) + chance) ** 0.5)


def by_known_share(x_nd: Tensor, class_n: Ids, rng: np.random.Generator) -> Evidence | None:
    """Return 1 / K by the share of the images that look like a labelled class; None if old and new look the same."""
    found = known_share(x_nd, class_n, rng)
    if found is None:
        return None
    n_images_c = np.bincount(class_n[class_n >= 0]).astype(np.float64)
    n_old = len(n_images_c)
    new_share = max(1 - n_old * found.share, 0.0)
    # Both the labelled classes and the new ones are a sample; the fewer new ones there are, the more each of them says.
    of_new = (BOTH_SIDES * found.error_of_new) ** 2 * n_old / (n_old - 1) / max(new_share, 1 / n_old)
    of_sizes = found.share**2 * n_images_c.var(ddof=1) / n_images_c.mean() ** 2 / n_old * new_share
    return Evidence(found.share, (of_new + found.error_of_old**2 + of_sizes) ** 0.5)


def combined(pieces: list[Evidence]) -> Evidence:
    """Return the mean of the pieces by their errors; where they disagree by more than these, the error is as large."""
    share_p, error_p = np.array(pieces).T
    precision_p = 1 / (error_p**2 + (LEAST_ERROR * share_p) ** 2 + ROUNDING)
    weight_p = precision_p / precision_p.sum()
    share = float(weight_p @ share_p)
    apart = float(weight_p @ (share_p - share) ** 2)
    return Evidence(share, max(1 / float(precision_p.sum()), apart) ** 0.5)


def probability_of(k_j: Ids, evidence: Evidence, freedom: int) -> Floats:
    """Return how likely each K is by the evidence (Student's t in 1 / K), where each doubling of K is equally likely.

    Args:
        k_j: all K that can be.
        evidence: an estimate of 1 / K.
        freedom: degrees of freedom of its error: the labelled classes less one.
    """
    z_j = (1 / k_j - evidence.share) / max(evidence.error, 1e-12)
    log_j = -(freedom + 1) / 2 * np.log1p(z_j**2 / freedom) - np.log(k_j)
    likely_j = np.exp(log_j - log_j.max())
    probability_j: Floats = likely_j / likely_j.sum()
    return probability_j


def _estimate(task: CountingTask, evidence: Evidence, freedom: int) -> KEstimate:
    """Return the K of the least expected relative error and the shortest list of K that holds 80 % of probability."""
    if not task.is_range_given:
        task = replace(task, last=max(task.last, len(task.class_n) // 2))
    k_j = np.arange(task.first, task.last + 1)
    probability_j = probability_of(k_j, evidence, max(freedom, 2))
    order_j = np.argsort(-probability_j, kind="stable")
    likely = k_j[order_j[: int(np.searchsorted(probability_j[order_j].cumsum(), INSIDE)) + 1]]
    # The median of what is weighted by 1 / K has the least mean of |K - true K| / true K.
    weight_j = probability_j / k_j
    up_j = weight_j.cumsum() / weight_j.sum()
    score_j = np.minimum(up_j, 1 - up_j + weight_j / weight_j.sum())
    best = int(score_j.argmax())
    k = int(k_j[best])
    # Of few classes an interval of one number is too sure of itself.
    low, high = max(min(int(likely.min()), k - 1), task.first), min(max(int(likely.max()), k + 1), task.last)
    is_shown_j = k_j <= max(2 * high, task.first)
    curve = tuple(zip(k_j[is_shown_j].tolist(), score_j[is_shown_j].tolist(), strict=True))
    confidence, reason = confidence_of_pairs(k, low, high, task.n_old)
    misfit = np.abs(1 / k_j - evidence.share).min()
    if misfit > 2 * evidence.error:
        # With a decimal: rounded to a whole number it may be an end of the range.
        pointed = f"{1 / max(evidence.share, 1e-9):,.1f}"
        confidence, reason = "low", f"the labels point to about {pointed}, outside the range"
    return KEstimate(k, low, high, curve, "pairs", confidence, reason, task.is_at_edge(low, high))


def _weights(variance_g: Floats) -> Floats:
    """Return weights that sum to 1; the median is added because a variance near 0 is often luck."""
    precision_g = 1 / (variance_g + np.median(variance_g) + ROUNDING)
    weight_g: Floats = precision_g / precision_g.sum()
    return weight_g


def confidence_of_pairs(k: int, low: int, high: int, n_old: int) -> tuple[Trust, str]:
    """Return the confidence and what it rests on: good only for tasks of a size for which coverage was measured."""
    half_width = (high - low) / (2 * k)
    confidence: Trust = "good" if half_width <= NARROW else "fair" if half_width <= WIDE else "low"
    if n_old < ENOUGH_CLASSES:
        return "low", f"only {n_old} classes are labelled, too few to predict the others"
    if not MEASURED[0] <= k <= MEASURED[1]:
        at_most: Trust = "low" if confidence == "low" else "fair"
        return at_most, f"intervals were checked on tasks of {MEASURED[0]} to {MEASURED[1]} classes only"
    return confidence, (
        f"{n_old} classes are labelled; the true number was inside such intervals in {HELD} of 10 test tasks"
    )
