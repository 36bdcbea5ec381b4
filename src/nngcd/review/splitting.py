"""A proposal how to cut a category into parts: k-means of its images' learned features, the same every time."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.clustering.kmeans import KMeans
from nngcd.core.errors import UserError
from nngcd.core.seeds import numpy_generator

MOST_CLUSTERED = 2000
"""Images whose parts are found by k-means; those of a larger category go to the nearest part."""


def propose_parts(features_nd: Tensor, n_parts: int = 2) -> list[list[int]]:
    """Return the rows of each part, the largest part first."""
    if n_parts < 2:
        raise UserError(f"split: parts = {n_parts}; must be at least 2.")
    unit_nd = F.normalize(features_nd.float(), dim=-1)
    some_md = _some(unit_nd)
    if len(np.unique(some_md.numpy(), axis=0)) < n_parts:
        raise UserError(
            f"split: {len(features_nd)} images, too few different ones for {n_parts} parts. Use fewer parts."
        )
    kmeans = KMeans(n_parts, n_init=10, random_state=0).fit(some_md)
    part_n = (kmeans.labels_ if some_md is unit_nd else kmeans.predict(unit_nd)).cpu().numpy()
    parts = [np.flatnonzero(part_n == part).tolist() for part in range(n_parts)]
    # Of parts of one size the one with the first image comes first, so the order depends on nothing else.
    return sorted((part for part in parts if part), key=lambda part: (-len(part), part[0]))


def _some(unit_nd: Tensor) -> Tensor:
    """Return the features that decide the parts: all of them, or a seeded sample."""
    if len(unit_nd) <= MOST_CLUSTERED:
        return unit_nd
    rows = numpy_generator(0, "parts").choice(len(unit_nd), MOST_CLUSTERED, replace=False)
    return unit_nd[torch.from_numpy(np.sort(rows))]
