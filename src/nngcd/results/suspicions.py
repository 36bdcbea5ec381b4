"""Categories to look at first: known ones that may hide another, new ones that may be several things, or one in pieces.

How often each of these is true stands in docs/guides/confidence.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.clustering.hidden_parts import cut_known_clusters
from nngcd.clustering.split_and_merge import merge_costs, typical_gain

DOUBTFUL = 0.4
"""Confidence below which an image counts for the group. On development tasks a precision of 0.78 and a recall of 0.72;
less doubt finds fewer (`benchmarks/open_world.py --fit`)."""
LEAST_IMAGES, LEAST_SHARE = 4, 0.2
"""A group has so many images, and this share of the category's unlabelled ones; a new category is compared with others
if it has as many."""
MIXED = 0.5
"""Expected share of the main class below which a new category is called several things."""
ALIKE = 3.0
"""Largest cost of merging two new categories for the pair to be worth a look, in units of the gain from cutting a
typical known category in two."""


class HiddenGroup(NamedTuple):
    """Images of a known category that are probably of another one."""

    category: str
    image_ids: list[str]
    n_images: int
    """Unlabelled images of the category, the group among them."""
    n_labelled: int


def hidden_groups(results: pd.DataFrame, class_names: Sequence[str]) -> list[HiddenGroup]:
    """Return the groups, the largest first."""
    open_ = results[results["label_given"].isna() & results["category"].isin(class_names)]
    n_labelled, n_open = results["label_given"].value_counts().to_dict(), open_["category"].value_counts().to_dict()
    doubtful = open_[open_["confidence"] < DOUBTFUL].groupby("category", sort=True, observed=True)["image_id"].agg(list)
    groups = [
        HiddenGroup(str(name), ids, n_open[name], n_labelled.get(name, 0))
        for name, ids in doubtful.items()
        if len(ids) >= max(LEAST_IMAGES, LEAST_SHARE * n_open[name])
    ]
    return sorted(groups, key=lambda group: -len(group.image_ids))


class MixedCategory(NamedTuple):
    """A new category that is probably several things."""

    category: str
    n_images: int
    expected: float
    """The share of its images that is expected to be of its main class."""


def mixed_categories(results: pd.DataFrame, class_names: Sequence[str]) -> list[MixedCategory]:
    """Return the new categories of which less than half of the images are expected to be of one class, worst first."""
    new = results[~results["category"].isin(class_names)].groupby("category", sort=True, observed=True)["confidence"]
    facts = zip(new.groups, new.size(), new.mean(), strict=True)
    found = [MixedCategory(str(name), int(n), float(expected)) for name, n, expected in facts if expected < MIXED]
    return sorted(found, key=lambda one: one.expected)


class AlikePair(NamedTuple):
    """Two new categories that may be one."""

    first: str
    second: str
    cost: float
    """Cost of their merge, in units of the gain from cutting a typical known category in two."""


def alike_pairs(results: pd.DataFrame, class_names: Sequence[str], features_nd: Tensor) -> list[AlikePair]:
    """Return the pairs of new categories that are close, measured by halves of known ones; closest first.

    Args:
        results: a run's results, one row per image; a labelled image stands in the category of its label.
        class_names: the known categories.
        features_nd: the learned features of these images.
    """
    # Few images cost little wherever they go.
    sizes = results["category"].value_counts()
    n_old, new = len(class_names), sorted({*sizes.index[sizes >= LEAST_IMAGES]} - {*class_names})
    names = [*class_names, *new, *sorted({*sizes.index} - {*class_names, *new})]
    cluster_n = torch.from_numpy(pd.Index(names).get_indexer(results["category"]).astype(np.int64))
    labels_n = torch.from_numpy(pd.Index(names).get_indexer(results["label_given"]).astype(np.int64))
    unit_nd = F.normalize(features_nd.float(), dim=-1)
    usual = typical_gain(unit_nd, cut_known_clusters(unit_nd, cluster_n, labels_n, n_old))
    if not usual:
        return []
    return pairs_within(new, merge_costs(unit_nd, cluster_n, torch.arange(n_old, n_old + len(new))) / usual)


def pairs_within(new: Sequence[str], cost_mm: Tensor) -> list[AlikePair]:
    """Return the pairs of new categories whose merge costs little, the closest first.

    Args:
        new: the categories.
        cost_mm: cost of each merge, in units of the gain from cutting a typical known category in two.
    """
    at_2p = torch.triu_indices(len(new), len(new), 1)
    cost_p = cost_mm[at_2p[0], at_2p[1]]
    # A thousand categories have half a million pairs: only those that count are looked at one by one.
    at_2p, cost_p = at_2p[:, cost_p <= ALIKE], cost_p[cost_p <= ALIKE]
    pairs = [AlikePair(new[i], new[j], cost) for (i, j), cost in zip(at_2p.T.tolist(), cost_p.tolist(), strict=True)]
    return sorted(pairs, key=lambda pair: pair.cost)


def suspicions(results: pd.DataFrame, class_names: Sequence[str], features_nd: Tensor) -> dict[str, Any]:
    """Return all of these as facts for a summary; the arguments are those of `alike_pairs`."""
    return {
        "hidden_groups": [
            {
                "category": group.category,
                "n_group": len(group.image_ids),
                "n_images": group.n_images,
                "n_labelled": group.n_labelled,
            }
            for group in hidden_groups(results, class_names)
        ],
        "mixed_categories": [found._asdict() for found in mixed_categories(results, class_names)],
        "alike_pairs": [found._asdict() for found in alike_pairs(results, class_names, features_nd)],
    }
