"""Some of a data set's images, for trying out whether everything runs."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nngcd.core.seeds import numpy_generator
from nngcd.datasets.split import Images, Split, Truth


@dataclasses.dataclass(frozen=True, slots=True)
class SomeImages:
    """The images of some rows."""

    images: Images
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    def open(self, index: int) -> Image.Image:
        """Return one image."""
        return self.images.open(int(self.rows[index]))

    def fingerprint(self, index: int) -> str:
        """Return the hash of one image's content."""
        return self.images.fingerprint(int(self.rows[index]))


def some_of(split: Split, truth: Truth | None, n_images: int) -> tuple[Split, Truth | None]:
    """Return about `n_images` of the images: a labelled one of each old class, and a random choice of the others.

    There are at least as many as categories, because fewer cannot be sorted into them.
    """
    n_kept = max(n_images, split.n_classes or 0)
    if n_kept >= len(split):
        return split, truth
    order = numpy_generator(0, "some images").permutation(len(split))
    _, first = np.unique(split.labels[order], return_index=True)
    needed = order[first[split.labels[order[first]] >= 0]]
    others = order[~np.isin(order, needed)]
    rows = np.sort(np.concatenate([needed, others[: max(n_kept - len(needed), 0)]]))
    some = dataclasses.replace(
        split,
        images=None if split.images is None else SomeImages(split.images, rows),
        features_nvd=None if split.features_nvd is None else split.features_nvd[rows],
        labels=split.labels[rows],
        table=split.table.iloc[rows].reset_index(drop=True),
    )
    return some, None if truth is None else dataclasses.replace(truth, classes=truth.classes[rows])
