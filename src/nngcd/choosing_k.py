"""The number of categories of a run: given, published with the data set, or estimated from the features."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nngcd.clustering.estimate_k import KEstimate, Method, estimate_k
from nngcd.core.errors import ConfigError, DataError, warn
from nngcd.core.progress import Counted, Progress
from nngcd.datasets.labels import NOTHING_TO_SORT
from nngcd.datasets.split import Split
from nngcd.settings import Settings

_LOG = logging.getLogger(__name__)
FEWEST_PER_CATEGORY = 2
"""With fewer images per category than this on average, K is most likely a mistake."""


def given_k(split: Split, settings: Settings) -> int | None:
    """Return K, checked against the data, or None when it is to be estimated.

    Raises:
        UserError: there is nothing to sort, or K or its range cannot be.
    """
    if split.n_unlabelled == 0:
        raise DataError(f"D06: all {len(split):,} images are labelled; {NOTHING_TO_SORT}")
    if split.n_labelled == 0:
        text = "D05: no labels: grouping only. Accuracy cannot be measured; naming a few categories helps a lot."
        warn(text)
    if settings.k is None and split.n_classes is not None:
        return split.n_classes
    if settings.k_range is None:
        return None
    first, last = settings.k_range
    if last < split.n_old:
        reason = f"T01: {split.n_old} categories are labelled; K counts known and new, so it cannot be less"
        raise ConfigError("k", settings.k, reason)
    if first > len(split):
        raise ConfigError("k", settings.k, f"T02: there are only {len(split)} images")
    if len(split) < FEWEST_PER_CATEGORY * first:
        text = f"T02: --k {settings.k} for {len(split):,} images: {len(split) / first:.1f} images per category."
        warn(text)
    return first if first == last else None


def estimated_k(
    features_nd: Tensor,
    labels: NDArray[np.int64],
    *,
    k_range: tuple[int, int] | None,
    seed: int,
    method: Method = "auto",
    progress: Progress,
) -> KEstimate:
    """Return the number of categories as the features of all images and the labels of some tell it."""
    stage = Counted(progress, "number of categories")
    found = estimate_k(features_nd, labels, k_range=k_range, method=method, seed=seed, progress=stage)
    stage.finish(f"{found.k} ({found.low} to {found.high})")
    _LOG.info(
        "K is about %d, %d to %d; confidence %s: %s", found.k, found.low, found.high, found.confidence, found.reason
    )
    return found
