"""Some of a data set's images or labels: to see whether everything runs, and how a method bears poorer data."""

from __future__ import annotations

import dataclasses
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nngcd.core.errors import ConfigError
from nngcd.core.seeds import numpy_generator
from nngcd.core.words import count
from nngcd.data.split import UNLABELLED, Images, Split, Truth

_Truth = TypeVar("_Truth", Truth, Truth | None)


@dataclasses.dataclass(frozen=True, slots=True)
class SomeImages:
    """The images of some rows."""

    images: Images
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    def open(self, index: int, short_side: int | None = None) -> Image.Image:
        """Return one image."""
        return self.images.open(int(self.rows[index]), short_side)

    def fingerprint(self, index: int) -> str:
        """Return the hash of one image's content."""
        return self.images.fingerprint(int(self.rows[index]))

    def look(self, index: int) -> bytes:
        """Return the look of one image."""
        return self.images.look(int(self.rows[index]))


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
    return _chosen(split, truth, rows)


def labelled_and_some(split: Split, truth: Truth | None, n: int) -> tuple[Split, Truth | None]:
    """Return all labelled images and, up to `n` in all, a random choice of the others."""
    others = np.flatnonzero(~split.is_labelled)
    n_others = n_unlabelled(n, split.n_labelled, len(split))
    if len(others) <= n_others:
        return split, truth
    drawn = numpy_generator(0, "sample").permutation(others)[:n_others]
    return _chosen(split, truth, np.sort(np.concatenate([np.flatnonzero(split.is_labelled), drawn])))


def n_unlabelled(n: int, n_labelled: int, n_images: int) -> int:
    """Return how many unlabelled images a sample of `n` has room for.

    Raises:
        ConfigError: there are some, and none would be in the sample.
    """
    if n <= n_labelled < n_images:
        reason = f"must be more than the {count(n_labelled, 'labelled image')}, which are all in the sample"
        raise ConfigError("--sample", n, reason)
    return max(n - n_labelled, 0)


def fewer_labels(split: Split, n_labels: int) -> Split:
    """Return the split with the labels of `n_labels` images of each class, chosen at random; the others lose theirs."""
    labels, generator = split.labels.copy(), numpy_generator(0, "fewer labels")
    for class_ in range(split.n_old):
        labels[generator.permutation(np.flatnonzero(split.labels == class_))[n_labels:]] = UNLABELLED
    return dataclasses.replace(split, labels=labels)


def long_tail(split: Split, truth: Truth, ratio: float) -> tuple[Split, Truth]:
    """Return the images with classes of falling size: the largest is left whole, the smallest is `ratio` times thinner.

    Sizes fall exponentially, as in the long-tailed versions of CIFAR, in a random order of the classes. Labelled and
    unlabelled images of a class are thinned alike, and of each kind that a class has one image is left.
    """
    generator, n_classes = numpy_generator(0, "long tail"), len(truth.class_names)
    share_c = ratio ** -(generator.permutation(n_classes) / max(n_classes - 1, 1))
    kept = []
    for class_ in range(n_classes):
        for is_labelled in (True, False):
            rows = np.flatnonzero((truth.classes == class_) & (split.is_labelled == is_labelled))
            n_kept = max(round(share_c[class_] * len(rows)), 1)
            kept.append(generator.permutation(rows)[:n_kept])
    return _chosen(split, truth, np.sort(np.concatenate(kept)))


def _chosen(split: Split, truth: _Truth, rows: NDArray[np.int64]) -> tuple[Split, _Truth]:
    return of_rows(split, rows), truth if truth is None else dataclasses.replace(truth, classes=truth.classes[rows])


def of_rows(split: Split, rows: NDArray[np.int64]) -> Split:
    """Return the split with only some of its images, in the order of the rows."""
    return dataclasses.replace(
        split,
        images=None if split.images is None else SomeImages(split.images, rows),
        features_nvd=None if split.features_nvd is None else split.features_nvd[rows],
        labels=split.labels[rows],
        table=split.table.iloc[rows].reset_index(drop=True),
    )
