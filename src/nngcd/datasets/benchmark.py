"""From the images of a benchmark to its split: published classes, the field's draw, the counts expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
from numpy.typing import NDArray

from nngcd.core.errors import DataError
from nngcd.core.progress import OnProgress
from nngcd.data.image_arrays import ImageArrays
from nngcd.data.image_files import ALLOWED_BAD, check_files, readable_of
from nngcd.data.split import (
    UNLABELLED,
    Draw,
    Images,
    Problem,
    Split,
    Truth,
    draw_labelled,
    draw_stratified,
    image_table,
    relabel,
)
from nngcd.datasets.counts import Part, warn_of_counts
from nngcd.datasets.published_splits import published_split


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Request for a benchmark's split. It has no seed of the run: the published draw belongs to the benchmark."""

    part: Part = "train"
    """The training images, or the official test images, which carry no labels."""
    draw: Draw = "pooled"
    """Way of drawing the labelled half."""
    allow_bad: float = ALLOWED_BAD
    """Largest accepted share of missing or unreadable files."""
    on_progress: OnProgress | None = None
    """Called with the number of files checked and their total, where images are files."""


TRAINING = Request()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Listing:
    """The images of one part of a benchmark, in the official order: the published draw labels places in this list.

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
        if ((self.classes < 0) | (self.classes >= n_classes)).any():
            raise DataError(f"this copy of '{self.name}' lists classes outside its {n_classes}.")


def split_files(listing: Listing, folder: Path, request: Request = TRAINING) -> tuple[Split, Truth]:
    """Return the split of a benchmark whose images are files under a folder.

    Raises:
        DataError: there are none, too many files are missing or unreadable, or a path leads out of the folder.
    """
    _refuse_empty(listing, request.part)
    for name in listing.file_names:
        windows = PureWindowsPath(name)
        if windows.drive or windows.root or ".." in (*windows.parts, *PurePosixPath(name).parts):
            raise DataError(f"D18: '{listing.name}' lists a file outside its folder: '{name}'.")
    checks = check_files(folder, listing.file_names, on_progress=request.on_progress)
    found = readable_of(folder, listing.file_names, checks, allow_bad=request.allow_bad)
    return _assemble(listing, request, found.images, found.content_hashes, kept=found.kept, problems=found.problems)


def split_arrays(listing: Listing, pixels_nhwc: NDArray[np.uint8], request: Request = TRAINING) -> tuple[Split, Truth]:
    """Return the split of a benchmark whose images are in memory, one uint8 array (n, h, w, 3) for all."""
    _refuse_empty(listing, request.part)
    images = ImageArrays(pixels_nhwc)
    hashes = [images.fingerprint(index) for index in range(len(images))]
    return _assemble(listing, request, images, hashes, kept=np.arange(len(images)))


def _refuse_empty(listing: Listing, part: Part) -> None:
    if len(listing.classes) == 0:
        raise DataError(f"this copy of '{listing.name}' lists no {'training' if part == 'train' else 'test'} images.")


def _assemble(
    listing: Listing, request: Request, images: Images, content_hashes: Sequence[str], *, kept: NDArray[np.int64],
    problems: Sequence[Problem] = (),
) -> tuple[Split, Truth]:  # fmt: skip
    """Return the split of the images that are there, `kept` being their places in the listing."""
    published = published_split(listing.name)
    classes, class_names = relabel(listing.classes, listing.class_names, published.old_classes)
    n_old = len(published.old_classes)
    # Over all listed images, before missing ones are left out, so that one missing file does not change the labels of
    # the others.
    labels = np.where(_labelled(classes, n_old, request), classes, UNLABELLED)
    file_names = [listing.file_names[index] for index in kept]
    split = Split(
        name=listing.name,
        images=images,
        features_nvd=None,
        labels=labels[kept],
        class_names=class_names[:n_old],
        table=image_table(file_names, content_hashes, split=[request.part] * len(file_names)),
        problems=(*listing.problems, *problems),
        n_classes=published.n_classes,
    )
    warn_of_counts(split, published, part=request.part, draw=request.draw)
    return split, Truth(classes=classes[kept], class_names=class_names, n_old=n_old)


def _labelled(classes: NDArray[np.int64], n_old: int, request: Request) -> NDArray[np.bool_]:
    """Return which images get a label; of test images none does."""
    if request.part == "test":
        return np.zeros(len(classes), dtype=np.bool_)
    # The published draw uses numpy's legacy generator.
    generator = np.random.RandomState(0)
    if request.draw == "stratified":
        return draw_stratified(classes, n_old=n_old, generator=generator)
    return draw_labelled(classes < n_old, generator=generator)
