"""Labels kept from training: they calibrate the confidence and give an honest accuracy on known categories."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter, defaultdict

import numpy as np
from numpy.typing import NDArray

from nngcd.data.findings import FEWEST
from nngcd.data.near_copies import NONE, near_copies
from nngcd.data.split import UNLABELLED, Split

SHARE = 0.2
LARGEST_BUNCH = 1 / 3
"""Share of a category that a single bunch may take from it, where no bunch fits the share asked for."""


def hold_back(split: Split, *, share: float = SHARE, seed: int = 0) -> NDArray[np.bool_]:
    """Return which labelled images are held back: the share of each category, and at least one where it has five.

    A benchmark, which knows its number of classes, holds nothing back: its published split says what is labelled. The
    same goes for a task of hidden classes: those are what it is scored on.
    Images of one group, near-identical ones and exact copies stay on one side; otherwise the accuracy would be that of
    images training has seen. The draw is by a hash of the seed and what keeps images together, so neither the order of
    the files nor images added to other categories change it, unless they are near-identical.
    """
    is_held = np.zeros(len(split), dtype=np.bool_)
    if share == 0 or split.n_classes is not None:
        return is_held
    sizes = np.bincount(split.labels[split.is_labelled], minlength=split.n_old)
    if sizes.max(initial=0) < FEWEST:
        return is_held
    near = near_copies(split)
    bunch_of = _bunches(split, near)
    # Where a near-identical image has another label, neither label can measure anything.
    may_be_held = ~_is_contradicted(split, near)
    for number in np.flatnonzero(sizes >= FEWEST):
        members = np.flatnonzero((split.labels == number) & may_be_held)
        is_held[_drawn(members, bunch_of, share=share, seed=seed)] = True
    return is_held


def without_labels(split: Split, is_held: NDArray[np.bool_]) -> Split:
    """Return the split with the held-back labels removed: what training may know."""
    if not is_held.any():
        return split
    return dataclasses.replace(split, labels=np.where(is_held, UNLABELLED, split.labels))


def why_nothing(split: Split, *, share: float) -> str:
    """Return in plain words why no label is held back."""
    if split.n_classes is not None:
        return "a benchmark, or a task of hidden classes, uses all of its labels"
    if split.n_labelled == 0:
        return "there are no labels"
    if share == 0:
        return "all labels were used for training"
    return f"no category has {FEWEST} labelled images that differ"


def n_unchecked(split: Split, is_held: NDArray[np.bool_]) -> int:
    """Return how many categories have no held-back image, and so do not count in the accuracy."""
    return split.n_old - len(np.unique(split.labels[is_held]))


def _drawn(members: NDArray[np.int64], bunch_of: dict[int, str], *, share: float, seed: int) -> list[int]:
    """Return members of one category up to the share, whole bunches at a time; a bunch that is too large is left.

    Where every bunch is too large, the smallest one is taken, up to a third of the category.
    """
    bunches: dict[str, list[int]] = defaultdict(list)
    for member in members.tolist():
        bunches[bunch_of[member]].append(member)
    order = sorted(bunches, key=lambda name: hashlib.sha256(f"{seed}/{name}".encode()).digest())
    wanted = max(round(share * len(members)), 1)
    drawn: list[int] = []
    for name in order[:-1]:
        if len(drawn) + len(bunches[name]) <= wanted:
            drawn += bunches[name]
    smallest = min((bunches[name] for name in order), key=len, default=[])
    return drawn or (smallest if len(smallest) <= LARGEST_BUNCH * len(members) else [])


def _bunches(split: Split, near: NDArray[np.int64]) -> dict[int, str]:
    """Name the bunch that each labelled image stays with: its group or content, joined where images are near-identical.

    A bunch is named after the first of the names it joins, so the order of the files does not matter.
    """
    own = {row: _own_bunch(split, row) for row in np.flatnonzero(split.is_labelled).tolist()}
    joined = {name: name for name in own.values()}

    def bunch(name: str) -> str:
        while joined[name] != name:
            name = joined[name]
        return name

    leader: dict[int, str] = {}
    for row, name in own.items():
        if near[row] != NONE:
            first, second = sorted((bunch(leader.setdefault(int(near[row]), name)), bunch(name)))
            joined[second] = first
    return {row: bunch(name) for row, name in own.items()}


def _is_contradicted(split: Split, near: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return (n,) which images have a near-identical one with another label."""
    pairs = {(group, label) for group, label in zip(near.tolist(), split.labels.tolist(), strict=True)
             if group != NONE and label != UNLABELLED}  # fmt: skip
    n_labels = Counter(group for group, _ in pairs)
    return np.array([n_labels[group] > 1 for group in near.tolist()], dtype=np.bool_)


def _own_bunch(split: Split, row: int) -> str:
    """Name what an image belongs to: its group, or else its content."""
    group = split.table["group"].iloc[row]
    if isinstance(group, str):
        return f"group {group}"
    return content_of(split, row)


def content_of(split: Split, row: int) -> str:
    """Return a hash of the content of one image or of its features."""
    if split.images is not None:
        return split.images.fingerprint(row)
    assert split.features_nvd is not None
    return hashlib.sha256(split.features_nvd[row].tobytes()).hexdigest()
