"""The real task in miniature, made of the labelled images alone: some of their classes play the part of new ones.

Settings can be compared on it without any label of an unlabelled image. As in the real task, about half of the classes
are new and half of the images of the others are labelled, the number of classes is known, and every image without a
label is scored. The unlabelled images are left out: nothing is known about them, so that clusters made of them, also
superfluous ones, would cost nothing.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from nngcd.core.errors import DataError
from nngcd.core.seeds import numpy_generator
from nngcd.data.sampling import of_rows
from nngcd.data.split import UNLABELLED, Split, Truth

LABELS_HIDDEN = 0.5
"""Share of the other classes' labels that is also hidden: the field labels half of the images of old classes."""


def hide_classes(split: Split, share: float, *, fold: int) -> tuple[Split, Truth]:
    """Return the labelled images with fewer labels, and what was hidden as their truth; no other truth is looked at.

    Args:
        split: images of which some are labelled.
        share: of the labelled classes that become new ones, in (0, 1), rounded up.
        fold: which classes these are. Consecutive folds hide different ones until every class has been hidden, then the
            classes are shuffled again: of a half, folds 0 and 1 are one draw, folds 2 and 3 another.

    Raises:
        DataError: with fewer than two labelled classes no old one is left; or a class has no labelled image.
    """
    if split.n_old < 2:
        raise DataError(
            f"reading.hide_classes needs at least 2 labelled categories, but {split.name} has {split.n_old}."
        )
    # One without images would be counted among the classes to be found.
    split.check_every_category_is_labelled()
    kept = of_rows(split, np.flatnonzero(split.is_labelled))
    hidden = _hidden(split.n_old, share, fold)
    old = np.setdiff1d(np.arange(split.n_old), hidden)
    order = np.concatenate([old, hidden])
    classes = np.argsort(order)[kept.labels]
    labels = np.where(classes < len(old), classes, UNLABELLED)
    generator = numpy_generator(fold, "hidden labels")
    for one in range(len(old)):
        rows = generator.permutation(np.flatnonzero(labels == one))
        # At least one label stays: a class without any would be no old one.
        labels[rows[: min(round(LABELS_HIDDEN * len(rows)), len(rows) - 1)]] = UNLABELLED
    names = tuple(split.class_names[i] for i in order)
    miniature = dataclasses.replace(kept, labels=labels, class_names=names[: len(old)], n_classes=len(names))
    return miniature, Truth(classes=classes, class_names=names, n_old=len(old))


def _hidden(n_classes: int, share: float, fold: int) -> NDArray[np.int64]:
    """Return which classes a fold hides: one stretch after another of a draw, and of the next draw after its last."""
    # Rounded up, so that halves of an odd number need no third fold; 0.1 * 30 is a little more than 3.
    n_hidden = min(max(math.ceil(round(share * n_classes, 6)), 1), n_classes - 1)
    draw, turn = divmod(fold, math.ceil(n_classes / n_hidden))
    order = numpy_generator(draw, "hidden classes").permutation(n_classes)
    return np.sort(np.take(order, np.arange(n_hidden) + turn * n_hidden, mode="wrap"))
