"""Calibration of a confidence, AUROC of a score, and confidence intervals of a share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from scipy.stats import rankdata

N_BINS = 10
"""Equal bins of the confidence (Naeini et al. 2015)."""
Z_95 = 1.959964


@dataclass(frozen=True, slots=True)
class Bin:
    """Images of similar confidence: the range, how many, the stated and the true share."""

    low: float
    high: float
    n: int
    confidence: float
    accuracy: float


def reliability(
    confidence: NDArray[np.float64], is_right: NDArray[np.bool_], *, n_bins: int = N_BINS
) -> tuple[Bin, ...]:
    """Return the bins of a reliability diagram that hold any image.

    Args:
        confidence: (n,) stated probability of being right, in [0, 1].
        is_right: (n,) whether it was.
        n_bins: equal bins of [0, 1]; a value on an edge belongs to the lower bin.
    """
    place = np.clip(np.ceil(confidence * n_bins).astype(np.int64) - 1, 0, n_bins - 1)
    bins = []
    for number in np.unique(place).tolist():
        inside = place == number
        stated, true = float(confidence[inside].mean()), float(is_right[inside].mean())
        bins.append(Bin(number / n_bins, (number + 1) / n_bins, int(inside.sum()), stated, true))
    return tuple(bins)


def expected_calibration_error(confidence: NDArray[np.float64], is_right: NDArray[np.bool_]) -> float:
    """Return the mean distance of stated and true share over the images; 0 is perfect, NaN without any image.

    With few images it is larger than the true one: chance alone moves the share of a bin of few.
    """
    if len(confidence) == 0:
        return math.nan
    bins = reliability(confidence, is_right)
    return sum(part.n * abs(part.confidence - part.accuracy) for part in bins) / len(confidence)


def auroc(score: NDArray[np.float64], is_positive: NDArray[np.bool_]) -> float:
    """Return the chance that a positive scores higher than a negative, ties counting half; NaN without one of them."""
    n_positive, n = int(is_positive.sum()), len(is_positive)
    if n_positive in (0, n):
        return math.nan
    ranks = rankdata(score)
    above = float(ranks[is_positive].sum()) - n_positive * (n_positive + 1) / 2
    return above / (n_positive * (n - n_positive))


def share_interval(n_right: int, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson 1927), which stays sensible for few images and for all or none."""
    if n == 0:
        return 0.0, 1.0
    share, z2 = n_right / n, Z_95**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z_95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def best_temperature(
    scores_mk: NDArray[np.float64], label_m: NDArray[np.int64], prior: Callable[[float], float] = lambda _: 0.0
) -> float:
    """Return the temperature that makes the labels most probable: of softmax(scores / temperature).

    Args:
        scores_mk: a score of each category for each labelled image.
        label_m: (m,) the category of each.
        prior: cost of a log temperature, added to the negative log likelihood of the labels.
    """

    def cost(log_temperature: float) -> float:
        log_p_mk = log_softmax(scores_mk / math.exp(log_temperature), axis=1)
        return prior(log_temperature) - float(np.take_along_axis(log_p_mk, label_m[:, None], axis=1).sum())

    return math.exp(float(minimize_scalar(cost, bounds=(-7, 4), method="bounded").x))
