"""The two values every dataset gives: `Split`, what training may know, and `Truth`, what only scoring may know."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image

from nngcd.core.errors import DataError

UNLABELLED = -1
UNKNOWN = -1
Draw = Literal["pooled", "stratified"]
"""Way of drawing the labelled half of the old classes: from all their images together, or from each class."""
EMPTY_FOLDER = "D29"
"""The code of a problem that is none of an image."""
TABLE_COLUMNS = ("image_id", "file_name", "split", "group")


class Images(Protocol):
    """A sequence of images that are opened one at a time."""

    def __len__(self) -> int: ...

    def open(self, index: int, short_side: int | None = None) -> Image.Image:
        """Return one image in RGB, upright and ready for use.

        Args:
            index: which image.
            short_side: what its short side will be made, where that is known: a larger image may be decoded smaller,
                at no less than twice this.
        """
        ...

    def fingerprint(self, index: int) -> str:
        """Return a hash of the content of one image."""
        ...

    def look(self, index: int) -> bytes:
        """Return what near-identical images have in common, see `looks.py`."""
        ...


@dataclass(frozen=True, slots=True)
class Problem:
    """A file, or its label, that is not used: which one, the code to look up in the docs, and why."""

    file_name: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split:
    """Data that training may know: N images (or their features) and the labels of some of them.

    Args:
        name: the name of the dataset, for titles and run folders.
        images: the images, or None when the user brings features.
        features_nvd: (n, views, d) float32 features, or None when there are images.
        labels: (n,) int64, an index into `class_names`, or `UNLABELLED`.
        class_names: the names of the old classes.
        table: one row per image with the columns `image_id`, `file_name`, `split` and `group`.
        problems: the files that are not used, and why.
        n_classes: the number of classes, old and new, when the dataset knows it.
        image_size: the side in pixels this dataset is best read at, when it differs from the backbone's own.
        may_flip: whether a mirrored image still shows the same class.
    """

    name: str
    images: Images | None
    features_nvd: NDArray[np.float32] | None
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    table: pd.DataFrame
    problems: tuple[Problem, ...] = ()
    n_classes: int | None = None
    image_size: int | None = None
    may_flip: bool = True

    def __post_init__(self) -> None:
        if (self.images is None) == (self.features_nvd is None):
            raise DataError(f"dataset '{self.name}' must give either images or features, not both.")
        if self.features_nvd is not None and (self.features_nvd.ndim != 3 or self.features_nvd.dtype != np.float32):
            found = f"{self.features_nvd.dtype} of shape {self.features_nvd.shape}"
            raise DataError(f"features of '{self.name}' must be float32 of shape (n, views, d), got {found}.")
        _check_ids("labels", self.labels, low=UNLABELLED, n_names=len(self.class_names))
        _check_table(self.table, self.labels, n_items=_n_items(self.images, self.features_nvd))
        if self.n_classes is not None and self.n_classes < self.n_old:
            raise DataError(f"'{self.name}' has {self.n_old} old classes but n_classes = {self.n_classes}.")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def n_old(self) -> int:
        """The number of old classes."""
        return len(self.class_names)

    @property
    def is_labelled(self) -> NDArray[np.bool_]:
        """(n,) whether each image carries a label."""
        is_labelled: NDArray[np.bool_] = self.labels != UNLABELLED
        return is_labelled

    @property
    def n_labelled(self) -> int:
        """The number of labelled images."""
        return int(np.count_nonzero(self.is_labelled))

    @property
    def n_unlabelled(self) -> int:
        """The number of unlabelled images."""
        return len(self.labels) - self.n_labelled

    def check_every_category_is_labelled(self) -> None:
        """Raise `DataError` if a known category has no labelled image."""
        missing = sorted(set(range(self.n_old)) - set(self.labels.tolist()))
        if missing:
            raise DataError(
                f"{len(missing)} of the {self.n_old} known categories of {self.name} have no labelled image, for "
                f"example '{self.class_names[missing[0]]}'. The copy of the benchmark is incomplete, or so small that "
                f"the published draw misses a class. To label half of every class: --set reading.draw=stratified"
            )

    @property
    def n_not_used(self) -> int:
        """The number of files that are not among the images; a file whose label alone is not used is."""
        others = {problem.file_name for problem in self.problems if problem.code != EMPTY_FOLDER}
        return len(others.difference(self.table["file_name"]))

    @property
    def fingerprint(self) -> str:
        """The split hash: it changes when a label, a class name or an image changes, and with their order."""
        digest = hashlib.sha256(self.labels.astype("<i8").tobytes())
        # A length before each part keeps ("ab", "c") and ("a", "bc") apart.
        for text in (*self.class_names, *self.table["image_id"]):
            encoded = text.encode()
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Truth:
    """The true class of the images, old classes first; kept apart from `Split` so that training cannot see it.

    Args:
        classes: (n,) int64, an index into `class_names`, or `UNKNOWN`.
        class_names: the names of all classes, old ones first.
        n_old: the number of old classes.
    """

    classes: NDArray[np.int64]
    class_names: tuple[str, ...]
    n_old: int

    def __post_init__(self) -> None:
        _check_ids("true classes", self.classes, low=UNKNOWN, n_names=len(self.class_names))
        if not 0 <= self.n_old <= len(self.class_names):
            raise DataError(f"n_old = {self.n_old} must be between 0 and the {len(self.class_names)} classes.")

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """(n,) whether the class of each image is known, so that it can be scored."""
        is_known: NDArray[np.bool_] = self.classes != UNKNOWN
        return is_known

    @property
    def is_old(self) -> NDArray[np.bool_]:
        """(n,) whether each image is known to belong to an old class."""
        return self.is_known & (self.classes < self.n_old)


def relabel(
    classes: NDArray[np.int64], class_names: Sequence[str], old_classes: Sequence[int]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return classes and names renumbered so that old classes are 0 to n_old - 1 and new ones follow.

    The field's code numbers the new classes by difficulty; here both groups keep their own order, which no metric sees.
    """
    old = sorted(old_classes)
    order = np.array(old + sorted(set(range(len(class_names))) - set(old)), dtype=np.int64)
    new_id = np.empty(len(order), dtype=np.int64)
    new_id[order] = np.arange(len(order))
    return new_id[classes], tuple(class_names[index] for index in order)


def draw_labelled(
    is_old: NDArray[np.bool_], *, generator: np.random.Generator | np.random.RandomState, fraction: float = 0.5
) -> NDArray[np.bool_]:
    """Return which images get a label: a random share of all images of old classes.

    This is the field's protocol (Vaze et al. 2022): the images of all old classes are pooled, so the draw is not
    stratified and a small class can receive more or less than its share.

    Args:
        is_old: (n,) whether each image belongs to an old class.
        generator: a `RandomState` repeats the published draws, which were made with numpy's legacy generator.
        fraction: share of the images to label; the count is rounded down.
    """
    candidates = np.flatnonzero(is_old)
    drawn = generator.choice(len(candidates), size=int(fraction * len(candidates)), replace=False)
    is_labelled = np.zeros(len(is_old), dtype=np.bool_)
    is_labelled[candidates[drawn]] = True
    return is_labelled


def draw_stratified(
    classes: NDArray[np.int64], *, n_old: int, generator: np.random.Generator | np.random.RandomState
) -> NDArray[np.bool_]:
    """Return which images get a label: half of each old class, rounded down, and at least one where it has any.

    This is not the field's protocol (see `draw_labelled`): it keeps small classes from going without labels.
    """
    is_labelled = np.zeros(len(classes), dtype=np.bool_)
    for number in range(n_old):
        members = np.flatnonzero(classes == number)
        n_drawn = max(len(members) // 2, min(len(members), 1))
        is_labelled[generator.choice(members, size=n_drawn, replace=False)] = True
    return is_labelled


def image_table(
    file_names: Sequence[str],
    content_hashes: Sequence[str],
    *,
    split: Sequence[str | None] | None = None,
    group: Sequence[str | None] | None = None,
) -> pd.DataFrame:
    """Return the table of a `Split`; the id of an image is a short hash of its content and its file name."""
    ids = [_image_id(name, content) for name, content in zip(file_names, content_hashes, strict=True)]
    return table_of_ids(ids, file_names, split=split, group=group)


def table_of_ids(
    ids: Sequence[str],
    file_names: Sequence[str],
    *,
    split: Sequence[str | None] | None = None,
    group: Sequence[str | None] | None = None,
) -> pd.DataFrame:
    """Return the table of a `Split` whose images have ids already."""
    absent = [None] * len(file_names)
    columns = (list(ids), list(file_names), list(split or absent), list(group or absent))
    return pd.DataFrame(dict(zip(TABLE_COLUMNS, columns, strict=True)), dtype="string")


def _image_id(file_name: str, content_hash: str) -> str:
    return hashlib.sha256(f"{content_hash}/{file_name}".encode()).hexdigest()[:16]


def _n_items(images: Images | None, features_nvd: NDArray[np.float32] | None) -> int:
    return len(images) if images is not None else len(features_nvd) if features_nvd is not None else 0


def _check_ids(what: str, ids: NDArray[np.int64], *, low: int, n_names: int) -> None:
    if ids.ndim != 1 or ids.dtype != np.int64:
        raise DataError(f"{what} must be one int64 per image, got {ids.dtype} of shape {ids.shape}.")
    wrong = ids[(ids < low) | (ids >= n_names)]
    if len(wrong):
        raise DataError(f"{what} must be between {low} and {n_names - 1} ({n_names} class names), found {wrong[0]}.")


def _check_table(table: pd.DataFrame, labels: NDArray[np.int64], *, n_items: int) -> None:
    if not len(table) == len(labels) == n_items:
        counts = f"{n_items} images or features, {len(labels)} labels and {len(table)} table rows"
        raise DataError(f"there must be one label and one table row per image, got {counts}.")
    missing = [name for name in TABLE_COLUMNS if name not in table.columns]
    if missing:
        raise DataError(f"the image table lacks {', '.join(missing)} (found: {', '.join(map(str, table.columns))}).")
    if not table["image_id"].is_unique:
        raise DataError("two rows of the image table have the same image_id; every file may be listed once.")
