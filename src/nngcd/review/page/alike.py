"""Which new categories may be one: measured by the centres of the categories as they are now, without training."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from nngcd.clustering.hidden_parts import cut_known_clusters
from nngcd.clustering.split_and_merge import LEAST_KNOWN, typical_gain, ward_costs
from nngcd.core.seeds import numpy_generator
from nngcd.results.suspicions import LEAST_IMAGES, AlikePair, pairs_within
from nngcd.review.page.index import Index
from nngcd.review.page.unit_features import UnitFeatures
from nngcd.review.state import Category, State

MOST_IMAGES = 20_000
"""Images of the known categories that are cut to learn what is typical; of more, a seeded sample of categories."""


def usual_gain(features: UnitFeatures, first: State, is_labelled_n: NDArray[np.bool_]) -> float:
    """Return what cutting a typical known category in two gains; 0 where too few can be cut."""
    known = [id_ for id_, category in first.categories.items() if category.kind == "known"]
    order = [known[at] for at in numpy_generator(0, "usual gain").permutation(len(known)).tolist()]
    number_of = {id_: number for number, id_ in enumerate(order)}
    cluster_n = np.array([number_of.get(one.category or "", -1) for one in first.images.values()], dtype=np.int64)
    n_images_k = np.cumsum(np.bincount(cluster_n[cluster_n >= 0], minlength=len(order)))
    n_cut = max(LEAST_KNOWN, int(np.searchsorted(n_images_k, MOST_IMAGES, side="right")))
    rows = np.flatnonzero((cluster_n >= 0) & (cluster_n < n_cut))
    cluster_m, unit_md = torch.from_numpy(cluster_n[rows]), torch.from_numpy(features.of(rows))
    labels_m = torch.where(torch.from_numpy(is_labelled_n[rows]), cluster_m, -1)
    return typical_gain(unit_md, cut_known_clusters(unit_md, cluster_m, labels_m, min(n_cut, len(order))))


def alike_categories(index: Index, live: Mapping[str, Category], usual: float) -> list[AlikePair]:
    """Return the pairs of new categories that lie close together now, closest first (see `suspicions.alike_pairs`)."""
    new = sorted(id_ for id_, one in live.items() if one.kind == "new" and index.size(id_) >= LEAST_IMAGES)
    if not usual or not new:
        return []
    size_m = torch.tensor([index.size(id_) for id_ in new], dtype=torch.float32)
    return pairs_within(new, ward_costs(torch.from_numpy(index.means(new)), size_m) / usual)
