"""A task made of labelled data alone: some labelled classes are hidden and play the part of new ones.

Settings can be compared on it without any label of an unlabelled image. The unlabelled images stay, so that the number
of images, categories and steps is that of the real task; they are not scored, because nothing is known about them.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from nngcd.core.errors import DataError
from nngcd.core.seeds import numpy_generator
from nngcd.datasets.split import UNKNOWN, UNLABELLED, Split, Truth

LABELS_HIDDEN = 0.2
"""Share of the labels of the other classes that is hidden, too, to score old classes on."""


def hide_classes(split: Split, share: float, *, fold: int) -> tuple[Split, Truth]:
    """Return the split with fewer labels, and what was hidden as its truth; no other truth is looked at.

    Args:
        split: images of which some are labelled.
        share: of the labelled classes that become new ones, in (0, 1).
        fold: which classes these are. Consecutive folds hide different ones until every class had its turn.

    Raises:
        DataError: with fewer than two labelled classes there is no old one left.
    """
    if split.n_old < 2:
        raise DataError(
            f"reading.hide_classes needs at least 2 labelled categories, and {split.name} has {split.n_old}."
        )
    n_hidden = min(max(round(share * split.n_old), 1), split.n_old - 1)
    order = numpy_generator(0, "hidden classes").permutation(split.n_old)
    hidden = np.sort(np.take(order, np.arange(n_hidden) + fold * n_hidden, mode="wrap"))
    old = np.setdiff1d(order, hidden)
    new_id = np.full(split.n_old + 1, UNKNOWN)
    new_id[np.concatenate([old, hidden])] = np.arange(split.n_old)
    # What has no label is at the end of `new_id`, and stays unknown.
    classes = new_id[split.labels]
    labels = np.where(classes < len(old), classes, UNLABELLED)
    generator = numpy_generator(fold, "hidden labels")
    for one in range(len(old)):
        rows = generator.permutation(np.flatnonzero(labels == one))
        # At least one label stays: a class without any would be no old one.
        labels[rows[: min(round(LABELS_HIDDEN * len(rows)), len(rows) - 1)]] = UNLABELLED
    names = tuple(split.class_names[i] for i in np.concatenate([old, hidden]))
    fewer = dataclasses.replace(split, labels=labels, class_names=names[: len(old)])
    return fewer, Truth(classes=classes, class_names=names, n_old=len(old))
