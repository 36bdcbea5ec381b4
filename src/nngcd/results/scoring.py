"""Every metric of a run where the truth is known, in per cent, with the protocol the numbers belong to."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nngcd.data.split import Draw
from nngcd.datasets.counts import Part
from nngcd.metrics.accuracy import Accuracy, balanced_accuracy, split_accuracy, split_accuracy_v1
from nngcd.metrics.agreement import adjusted_rand_index, normalized_mutual_information
from nngcd.metrics.by_name import Called, by_name_accuracy, called_known, called_new

Scored = Part | Literal["hidden"]
_SCORED = {
    "train": "transductive: unlabelled training images",
    "test": "inductive: official test images",
    "hidden": "proxy: labelled images whose labels were hidden, some of them with their whole class",
}


def protocol(*, part: Scored = "train", draw: Draw = "pooled") -> str:
    """Return which images are scored and how, in one line; the field's own draw of labels is not mentioned."""
    drawn = ", stratified draw" if draw == "stratified" else ""
    return f"{_SCORED[part]}, one Hungarian match over all of them (v2), last epoch{drawn}"


def score(
    true_class: NDArray[np.int64],
    cluster: NDArray[np.int64],
    n_old: int,
    *,
    part: Scored = "train",
    draw: Draw = "pooled",
) -> dict[str, Any]:
    """Return every metric of clusters against true classes, in per cent, with the protocol they belong to.

    Old classes come first, and cluster k < n_old is old class k.
    """
    is_old = true_class < n_old
    return {
        "protocol": protocol(part=part, draw=draw),
        "n_scored": len(true_class),
        "accuracy": _per_cent(split_accuracy(true_class, cluster, is_old)),
        "accuracy_v1": _per_cent(split_accuracy_v1(true_class, cluster, is_old)),
        "balanced_accuracy": _per_cent(balanced_accuracy(true_class, cluster, is_old)),
        "by_name": _per_cent(by_name_accuracy(true_class, cluster, n_old)),
        "called_known": _per_cent(called_known(true_class, cluster, n_old)),
        "called_new": _per_cent(called_new(true_class, cluster, n_old)),
        "nmi": round(100 * normalized_mutual_information(true_class, cluster), 2),
        "ari": round(100 * adjusted_rand_index(true_class, cluster), 2),
        "n_true_classes": len(np.unique(true_class)),
        "n_clusters_used": len(np.unique(cluster)),
    }


def _per_cent(shares: Accuracy | Called) -> dict[str, float | None]:
    """Return the parts in per cent; None where there is nothing to score."""
    return {name: None if math.isnan(part) else round(100 * part, 2) for name, part in asdict(shares).items()}
