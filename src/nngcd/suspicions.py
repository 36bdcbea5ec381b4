"""Known categories that may hide another one: a good part of their images has hardly any labelled ones around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

DOUBTFUL = 0.35
"""Confidence below which an image counts for the group. Of 0.3 to 0.6, and of the shares below, chosen on development
tasks (`benchmarks/open_world.py`)."""
LEAST_IMAGES, LEAST_SHARE = 4, 0.2
"""A group has so many images, and this share of the category's unlabelled ones."""


class HiddenGroup(NamedTuple):
    """Images of a known category that are probably of another one."""

    category: str
    image_ids: list[str]
    n_images: int
    """Unlabelled images of the category, the group among them."""
    n_labelled: int


def hidden_groups(results: pd.DataFrame, class_names: Sequence[str]) -> list[HiddenGroup]:
    """Return the groups, the largest first.

    Args:
        results: a run's results, one row per image.
        class_names: the known categories.
    """
    open_ = results[results["label_given"].isna()]
    n_labelled = results["label_given"].value_counts()
    groups = []
    for name, rows in open_[open_["category"].isin(class_names)].groupby("category", sort=True):
        doubtful = rows.loc[rows["confidence"] < DOUBTFUL, "image_id"]
        if len(doubtful) >= max(LEAST_IMAGES, LEAST_SHARE * len(rows)):
            groups.append(HiddenGroup(str(name), doubtful.tolist(), len(rows), int(n_labelled.get(name, 0))))
    return sorted(groups, key=lambda group: -len(group.image_ids))
