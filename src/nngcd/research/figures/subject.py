"""Data that figures draw: arrays and a few words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nngcd.core.errors import DataError, UserError, did_you_mean


class UndrawableError(UserError):
    """A figure that cannot be drawn of these runs; the message says why, and the other figures are drawn."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """Which image belongs to which class, old classes first."""

    class_n: NDArray[np.int64]
    names: tuple[str, ...]
    n_old: int
    are_true: bool
    """Whether these are true classes; otherwise they are the categories that the run found."""

    @property
    def is_old_n(self) -> NDArray[np.bool_]:
        """(n,) whether each image belongs to an old class."""
        return self.class_n < self.n_old

    @property
    def order(self) -> NDArray[np.int64]:
        """The images from the first old to the last new class."""
        return np.argsort(self.class_n, kind="stable")

    @property
    def words(self) -> str:
        """Kind of the classes, for a caption."""
        return "true class" if self.are_true else "found category (the true classes are not available)"


@dataclass(frozen=True, slots=True)
class Activations:
    """Features of some images, as the contrastive losses see them."""

    values_nd: NDArray[np.float32]
    what: str
    """For example `projection (gelu)`."""


@dataclass(frozen=True, slots=True)
class AttentionMaps:
    """Attention of the class token to each patch of some images."""

    views_bhwc: NDArray[np.uint8]
    maps_bhpp: NDArray[np.float32]
    """(images, heads, rows of patches, columns of patches)"""


def chosen_classes(grouping: Grouping, wanted: Sequence[str], n_each: int) -> list[int]:
    """Return classes to be shown, old before new: those wanted, or the largest `n_each` of the old and of the new."""
    for name in wanted:
        if name not in grouping.names:
            hint = did_you_mean(name, grouping.names)
            raise DataError(f"there is no class '{name}'.{hint} There are {len(grouping.names)} classes.")
    if wanted:
        return sorted({grouping.names.index(name) for name in wanted})
    sizes = np.bincount(grouping.class_n, minlength=len(grouping.names))
    classes = np.arange(len(sizes))
    largest = [
        part[np.argsort(-sizes[part], kind="stable")][:n_each]
        for part in (classes[: grouping.n_old], classes[grouping.n_old :])
    ]
    return [int(c) for part in largest for c in np.sort(part) if sizes[c] > 0]
