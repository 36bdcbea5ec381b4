"""Which image to ask about next: a person's minute is dear, so the images that are most probably wrong come first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nngcd.review.page.desk import Desk
from nngcd.review.page.unit_features import Ids


def unsure_rows(desk: Desk) -> Ids:
    """Return the rows a model was unsure of and no person has decided about."""
    return np.flatnonzero(desk.is_unsure_n & ~desk.is_reviewed() & (desk.index.category_n >= 0))


def next_rows(desk: Desk) -> Ids:
    """Return the rows worth a question: those the model was unsure of, then the others; the most doubtful first.

    An image is in doubt if the model has little confidence in its category, and if it is far from the centre of that
    category as it has been corrected so far. Both count alike, by their ranks (docs/results/review.md).
    """
    is_open_n = ~desk.is_labelled_n & ~desk.is_reviewed() & (desk.index.category_n >= 0)
    rows = np.flatnonzero(is_open_n)
    sureness_m = _rank(np.nan_to_num(desk.confidence_n[rows], nan=1.0)) + _rank(desk.index.to_own_centre()[rows])
    return rows[np.lexsort((sureness_m, ~desk.is_unsure_n[rows]))]


def _rank(values_m: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the place of each value among all; equal values share the mean of their places."""
    _, inverse_m, n_k = np.unique(values_m, return_inverse=True, return_counts=True)
    last_k = np.cumsum(n_k)
    rank_m: NDArray[np.float64] = (last_k - (n_k - 1) / 2)[inverse_m]
    return rank_m
