"""The number of categories of a run: given, published with the data set, or estimated from the features."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nngcd.core.errors import ConfigError, DataError, warn
from nngcd.core.progress import Counted, Progress
from nngcd.counting.estimate_k import CountingMethod, KEstimate, estimate_k
from nngcd.data.findings import all_labelled, no_labels
from nngcd.data.split import Split

_LOG = logging.getLogger(__name__)
FEWEST_PER_CATEGORY = 2
"""With fewer images per category than this on average, K is most likely a mistake."""


def given_k(split: Split, k: int | str | None, k_range: tuple[int, int] | None) -> int | None:
    """Return K, checked against the data, or None when it is to be estimated.

    Raises:
        UserError: there is nothing to sort, or K or its range is impossible.
    """
    if split.n_unlabelled == 0:
        raise DataError(str(all_labelled(len(split))))
    if split.n_labelled == 0:
        warn(str(no_labels()))
    if k is None and split.n_classes is not None:
        return split.n_classes
    if k_range is None:
        return None
    first, last = k_range
    if last < split.n_old:
        reason = f"T01: must be at least {split.n_old}, the number of labelled categories; it counts known and new ones"
        raise ConfigError("k", k, reason)
    if first > len(split):
        raise ConfigError("k", k, f"T02: must be at most {len(split)}, the number of images")
    if len(split) < FEWEST_PER_CATEGORY * first:
        per_category = f"{len(split) / first:.1f} images per category"
        warn(f"T02: --k {k} leaves only {per_category} ({len(split):,} images). Try a smaller --k.")
    return first if first == last else None


def estimated_k(
    features_nd: Tensor,
    labels: NDArray[np.int64],
    *,
    k_range: tuple[int, int] | None,
    seed: int,
    method: CountingMethod = "auto",
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
