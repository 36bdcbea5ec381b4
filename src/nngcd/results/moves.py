"""Splits and merges of a run's clusters: facts for its summary, and a table of the images."""

from __future__ import annotations

from typing import Any

import pandas as pd

from nngcd.data.split import Split
from nngcd.methods.contract import BaseMethod
from nngcd.results.result_tables import Fitted


def move_facts(split: Split, fitted: Fitted) -> dict[str, Any]:
    """Return how many categories there are, how that was found, and which clusters were split and merged on the way."""
    estimate, method = fitted.k_estimate, fitted.model.method
    names = ("k", "low", "high", "method", "confidence", "reason", "is_at_edge")
    return {
        "k": fitted.scores_nk.shape[1],
        "k_estimate": None if estimate is None else {name: getattr(estimate, name) for name in names},
        "known_splits": [
            {"category": split.class_names[found.cluster], **found._asdict()} for found in method.known_splits()
        ],
        "new_splits": [found._asdict() for found in method.new_splits()],
        "merges": [found._asdict() for found in method.cluster_merges()],
        "label_check": label_facts(method),
    }


def move_table(split: Split, method: BaseMethod) -> pd.DataFrame:
    """Return one row per image that a split or a merge put into another cluster; `n` counts as the summary's lists."""
    epochs = {
        "split": [one.epoch for one in method.known_splits()],
        "new split": [one.epoch for one in method.new_splits()],
        "merge": [one.epoch for one in method.cluster_merges()],
    }
    moved = method.moved_images()
    row_m = [one.image for one in moved]
    return pd.DataFrame(
        {
            "epoch": [epochs[one.move][one.n] for one in moved],
            "move": [one.move for one in moved],
            "n": [one.n for one in moved],
            "file_name": split.table["file_name"].to_numpy()[row_m],
            "image_id": split.table["image_id"].to_numpy()[row_m],
        }
    )


def label_facts(method: BaseMethod) -> dict[str, Any] | None:
    """Return whether the labels look like a random sample, and which setting to change if not; None if not tested."""
    check = method.label_check()
    if check is None:
        return None
    return {**check._asdict(), "is_doubtful": check.is_doubtful, "way_out": method.without_search}
