"""Labels kept from training: they calibrate the confidence and give an honest accuracy on known categories."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from nngcd.datasets.split import UNLABELLED, Split

SHARE = 0.2
FEWEST = 5
"""A category with fewer labelled images keeps all of them for training."""


def hold_back(split: Split, *, share: float = SHARE, seed: int = 0) -> NDArray[np.bool_]:
    """Return which labelled images are held back: the share of each category, and at least one where it has five.

    A benchmark, which knows its number of classes, holds nothing back: its published split says what is labelled. The
    same goes for a task of hidden classes: those are what it is scored on.
    Images of one group, or with the same content, stay on one side; otherwise the accuracy would be that of images
    training has seen. The draw is by a hash of the seed and what keeps images together, so neither the order of the
    files nor images added to other categories change it.

    Args:
        split: the images with all labels given.
        share: how much of each category, in [0, 1); 0 holds nothing back.
        seed: the seed of the run.
    """
    is_held = np.zeros(len(split), dtype=np.bool_)
    if share == 0 or split.n_classes is not None:
        return is_held
    for number in range(split.n_old):
        members = np.flatnonzero(split.labels == number)
        if len(members) >= FEWEST:
            is_held[_drawn(split, members, share=share, seed=seed)] = True
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


def _drawn(split: Split, members: NDArray[np.int64], *, share: float, seed: int) -> list[int]:
    """Return members of one category up to the share, whole bunches at a time; a bunch that is too large is left."""
    bunches: dict[str, list[int]] = defaultdict(list)
    for member in members.tolist():
        bunches[_bunch(split, member)].append(member)
    order = sorted(bunches, key=lambda name: hashlib.sha256(f"{seed}/{name}".encode()).digest())
    wanted = max(round(share * len(members)), 1)
    drawn: list[int] = []
    for name in order[:-1]:
        if len(drawn) + len(bunches[name]) <= wanted:
            drawn += bunches[name]
    return drawn


def _bunch(split: Split, row: int) -> str:
    """Name what an image belongs to: its group, or else its content."""
    group = split.table["group"].iloc[row]
    if isinstance(group, str):
        return f"group {group}"
    if split.images is not None:
        return split.images.fingerprint(row)
    assert split.features_nvd is not None
    return hashlib.sha256(split.features_nvd[row].tobytes()).hexdigest()
