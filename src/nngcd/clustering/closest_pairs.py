"""Merging the two closest clusters again and again, for CiPR's K clusters (see `clustering/snc.py`)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from nngcd.clustering.neighbour_links import Rule, classes_of, published_chains, sums
from nngcd.clustering.points import WIDE, Ids

LEAST_NORM = 1e-3
"""Merged clusters that cancel out to less than this share of their lengths have no direction to compare by."""


def closest_pairs(x_nd: Tensor, class_n: Ids, cluster_n: Ids, *, rule: Rule) -> Iterator[tuple[int, int]]:
    """Give pairs of clusters (kept, gone), kept < gone, the most similar at that time; never two labelled classes.

    Rule `published` merges two clusters of one class only where they are next to each other in a chain of that class.
    Clusters count in the order of their first images there, and chains are made anew after each merge.

    Cosines follow from those before: (a + b).c / |a + b||c| needs a.c, b.c and a.b only. Forbidden pairs are -inf,
    which sums keep by themselves. Each row's best is known, so that a merge costs a few rows and not the table.
    """
    sum_md, class_m = sums(x_nd, cluster_n), classes_of(cluster_n, class_n)
    norm_m = torch.linalg.vector_norm(sum_md, dim=1).clamp_min(torch.finfo(WIDE).tiny).cpu().numpy()
    unit_md = F.normalize(sum_md).to(x_nd.dtype)
    similarity_mm = (unit_md @ unit_md.T).cpu().numpy()
    np.fill_diagonal(similarity_mm, -np.inf)
    old = np.flatnonzero(class_m >= 0)
    is_other_oo = class_m[old][:, None] != class_m[old]
    similarity_mm[old[:, None], old] = np.where(is_other_oo, -np.inf, similarity_mm[old[:, None], old])
    chains = _Chains(similarity_mm, class_m) if rule == "published" else None
    open_mm = chains.open_mm if chains else similarity_mm
    nearest_m, best_m = open_mm.argmax(1), open_mm.max(1)
    while best_m.max() > -np.inf:
        first = int(best_m.argmax())
        kept, gone = sorted((first, int(nearest_m[first])))
        yield kept, gone
        _merge(similarity_mm, norm_m, kept, gone)
        changed = chains.merge(kept, gone) if chains else np.array([kept, gone])
        is_better_m = open_mm[kept] > best_m
        nearest_m[is_better_m], best_m[is_better_m] = kept, open_mm[kept, is_better_m]
        is_stale_m = (nearest_m == gone) | ((nearest_m == kept) & ~is_better_m)
        is_stale_m[changed] = True
        nearest_m[is_stale_m] = open_mm[is_stale_m].argmax(1)
        best_m[is_stale_m] = open_mm[is_stale_m].max(1)


class _Chains:
    """The similarities of the pairs that may be merged now, where those of one class must be neighbours in a chain."""

    def __init__(self, similarity_mm: NDArray[np.floating], class_m: Ids) -> None:
        self.similarity_mm = similarity_mm
        self.class_m = class_m
        self.open_mm = similarity_mm.copy()
        for class_ in np.unique(class_m[class_m >= 0]):
            self._make(np.flatnonzero(class_m == class_))

    def merge(self, kept: int, gone: int) -> Ids:
        """Take over the similarities of a merged pair, and return the clusters of which more has changed."""
        for own_mm in (self.open_mm, self.open_mm.T):
            own_mm[[kept, gone]] = self.similarity_mm[[kept, gone]]
        class_ = self.class_m[[kept, gone]].max()
        self.class_m[kept], self.class_m[gone] = class_, -1
        member_c = np.flatnonzero(self.class_m == class_) if class_ >= 0 else np.array([kept])
        if class_ >= 0:
            self._make(member_c)
        return np.append(member_c, gone)

    def _make(self, member_c: Ids) -> None:
        similarity_cc = self.similarity_mm[np.ix_(member_c, member_c)]
        target_c = published_chains(similarity_cc)
        is_linked_cc = np.zeros_like(similarity_cc, dtype=bool)
        is_linked_cc[np.arange(len(target_c)), target_c] = True
        self.open_mm[np.ix_(member_c, member_c)] = np.where(is_linked_cc | is_linked_cc.T, similarity_cc, -np.inf)


def _merge(similarity_mm: NDArray[np.floating], norm_m: NDArray[np.floating], kept: int, gone: int) -> None:
    """Put the similarities of the sum of two clusters in the place of the first; the second has none any more."""
    a, b = norm_m[kept], norm_m[gone]
    squared = a**2 + b**2 + 2 * a * b * similarity_mm[kept, gone]
    norm_m[kept] = max(math.sqrt(max(squared, 0)), LEAST_NORM * (a + b))
    row_m = (a * similarity_mm[kept] + b * similarity_mm[gone]) / norm_m[kept]
    similarity_mm[kept], similarity_mm[:, kept] = row_m, row_m
    similarity_mm[gone], similarity_mm[:, gone] = -np.inf, -np.inf
