"""From the training images of a benchmark to its split: published classes, the field's draw, the counts expected."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
from numpy.typing import NDArray

from nngcd.core.errors import DataError, NngcdWarning
from nngcd.datasets.image_arrays import ImageArrays
from nngcd.datasets.image_files import Progress, keep_readable
from nngcd.datasets.published import PublishedSplit, published_split
from nngcd.datasets.split import UNLABELLED, Images, Problem, Split, Truth, draw_labelled, image_table, relabel


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Listing:
    """The training images of a benchmark, in the official order: the published draw labels places in this list.

    Args:
        name: the name of the benchmark.
        file_names: one name per image, each different.
        classes: (n,) int64, an index into `class_names`, numbered as the published split numbers the classes.
        class_names: the names of all classes, also of those without an image.
        problems: files that were left out already.
    """

    name: str
    file_names: Sequence[str]
    classes: NDArray[np.int64]
    class_names: Sequence[str]
    problems: tuple[Problem, ...] = ()

    def __post_init__(self) -> None:
        n_classes = published_split(self.name).n_classes
        if len(self.class_names) != n_classes:
            raise DataError(f"'{self.name}' has {n_classes} classes, but this copy names {len(self.class_names)}.")
        if len(self.classes) == 0 or self.classes.min() < 0 or self.classes.max() >= n_classes:
            raise DataError(f"this copy of '{self.name}' lists no training images, or classes outside its {n_classes}.")


def split_files(
    listing: Listing, folder: Path, *, allow_bad: float, on_progress: Progress | None
) -> tuple[Split, Truth]:
    """Return the split of a benchmark whose images are files.

    Args:
        listing: the training images, with paths relative to `folder`.
        folder: where the images lie.
        allow_bad: share of missing or unreadable files above which the data are refused.
        on_progress: called with the number of files checked and their total.

    Raises:
        DataError: too many files are missing or unreadable, or a path leads out of the folder.
    """
    for name in listing.file_names:
        windows = PureWindowsPath(name)
        if windows.drive or windows.root or ".." in (*windows.parts, *PurePosixPath(name).parts):
            raise DataError(f"D18: '{listing.name}' lists a file outside its folder: '{name}'.")
    readable = keep_readable(folder, listing.file_names, allow_bad=allow_bad, on_progress=on_progress)
    problems = (*listing.problems, *readable.problems)
    return _assemble(listing, readable.images, readable.content_hashes, kept=readable.kept, problems=problems)


def split_arrays(listing: Listing, pixels_nhwc: NDArray[np.uint8]) -> tuple[Split, Truth]:
    """Return the split of a benchmark whose images lie in memory, one uint8 array (n, h, w, 3) for all."""
    images = ImageArrays(pixels_nhwc)
    hashes = [images.fingerprint(index) for index in range(len(images))]
    return _assemble(listing, images, hashes, kept=np.arange(len(images)), problems=listing.problems)


def _assemble(
    listing: Listing,
    images: Images,
    content_hashes: Sequence[str],
    *,
    kept: NDArray[np.int64],
    problems: tuple[Problem, ...],
) -> tuple[Split, Truth]:
    """Return split and truth of the images that are there, `kept` being their places in the listing."""
    published = published_split(listing.name)
    classes, class_names = relabel(listing.classes, listing.class_names, published.old_classes)
    n_old = len(published.old_classes)
    # The published draw uses numpy's legacy generator. It is made over all listed images, before missing ones are
    # left out, so that one missing file does not change the labels of the others.
    is_labelled = draw_labelled(classes < n_old, generator=np.random.RandomState(0))
    labels = np.where(is_labelled, classes, UNLABELLED)
    file_names = [listing.file_names[index] for index in kept]
    split = Split(
        name=listing.name,
        images=images,
        features_nvd=None,
        labels=labels[kept],
        class_names=class_names[:n_old],
        table=image_table(file_names, content_hashes, split=["train"] * len(file_names)),
        problems=problems,
        n_classes=published.n_classes,
    )
    _warn_if_incomplete(split, published)
    return split, Truth(classes=classes[kept], class_names=class_names, n_old=n_old)


def _warn_if_incomplete(split: Split, published: PublishedSplit) -> None:
    found, expected = (split.n_labelled, split.n_unlabelled), (published.n_labelled, published.n_unlabelled)
    # Table I does not say whether it rounds or cuts, so less than one unit to each side is right; of 1, nothing.
    tolerance = published.counts_rounded_to - 1
    is_near = all(abs(one - other) <= tolerance for one, other in zip(found, expected, strict=True))
    if is_near and published.n_images in (None, len(split)):
        return
    about = "about " if published.counts_rounded_to > 1 else ""
    total = f", {published.n_images:,} in all" if published.n_images is not None else ""
    text = (
        f"'{split.name}' should have {about}{expected[0]:,} labelled and {expected[1]:,} unlabelled images{total}, "
        f"found {found[0]:,} and {found[1]:,}, {len(split):,} in all. Is the copy complete? "
        f"Its scores cannot be compared with published ones."
    )
    warnings.warn(text, NngcdWarning, stacklevel=4)
