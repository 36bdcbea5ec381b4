"""The changes from a reviewed run to the run that learned from it: moved images, new and vanished categories."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd
from scipy.optimize import linear_sum_assignment

from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_results
from nngcd.review.state import State

MOST_LISTED = 200


@dataclass(frozen=True, slots=True)
class Changes:
    """Images that a new run sorts differently; those in only one of the runs do not count."""

    n_images: int
    n_moved: int
    moved: list[dict[str, Any]]
    """By old and new category, the most images first: from, to, n."""
    appeared: list[str]
    vanished: list[str]
    renamed: dict[str, str]
    """Categories without a name keep their images and get a new id: new id by old name."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values, with the longest lists cut."""
        return {**asdict(self), "moved": self.moved[:MOST_LISTED]}


def changes_between(state: State, new: RunFolder) -> Changes:
    """Return how a new run differs from a review.

    Categories are the same if they have the same name. Of the others, which have none, those are the same that share
    more than half of their images.
    """
    table = read_results(new)
    before = {image: state.categories[one.category].name for image, one in state.images.items() if one.category}
    found = pd.DataFrame({"now": table["category"].astype(str), "before": table["image_id"].map(before)})
    found = found[found["before"].notna()]
    pairs = found.groupby(["before", "now"], sort=True).size()
    same = _same(pairs)
    is_moved = [same.get(str(old)) != new_ for old, new_ in pairs.index.to_list()]
    moved = pairs[is_moved].sort_values(ascending=False, kind="stable")
    return Changes(
        n_images=len(found),
        n_moved=int(moved.sum()),
        moved=[
            {"from": old, "to": now, "n": int(n)}
            for (old, now), n in zip(moved.index.to_list(), moved.to_list(), strict=True)
        ],
        appeared=sorted(set(found["now"]) - set(same.values())),
        vanished=sorted(set(found["before"]) - set(same)),
        renamed={old: now for old, now in same.items() if old != now},
    )


def _same(pairs: pd.Series[int]) -> dict[str, str]:
    """Return the new category of each old one that is still there."""
    old_sizes, new_sizes = pairs.groupby(level=0).sum(), pairs.groupby(level=1).sum()
    same = {name: name for name in old_sizes.index if name in new_sizes.index}
    old = [name for name in old_sizes.index if name not in same]
    new = [name for name in new_sizes.index if name not in same]
    if not old or not new:
        return same
    shared = pairs.unstack(fill_value=0).reindex(index=old, columns=new, fill_value=0).to_numpy()
    for i, j in zip(*linear_sum_assignment(-shared), strict=True):
        if 2 * shared[i, j] > max(old_sizes[old[i]], new_sizes[new[j]]):
            same[old[i]] = new[j]
    return same
