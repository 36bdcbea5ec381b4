"""The reliability of an interval of K, measured on tasks with a known number of classes."""

from __future__ import annotations

from nngcd.core.run_schemas import Trust
from nngcd.counting.scores import ENOUGH_CLASSES

NARROW, WIDE = 0.15, 0.4
"""Half the width of an interval in units of K, up to which it is called good, and fair."""
MEASURED = (10, 200)
"""Fewest and most classes of the tasks on which coverage was measured (`benchmarks/k_intervals.py`)."""
HELD = 9
"""In how many of ten such tasks the true number was inside the interval, whatever its width."""


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
