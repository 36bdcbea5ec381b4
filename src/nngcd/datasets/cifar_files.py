"""The two forms in which CIFAR-10 and CIFAR-100 are handed on: python batches, and PNG files in class folders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from nngcd.core.errors import DataError, warn
from nngcd.data.split import Split, Truth
from nngcd.datasets.benchmark import Listing, Request, split_arrays, split_files
from nngcd.datasets.class_folders import class_folders, images_by_class
from nngcd.datasets.counts import Part
from nngcd.datasets.official_files import Layout, find_layout
from nngcd.datasets.plain_pickle import read_plain_pickle
from nngcd.datasets.published_splits import published_split

_PNG: dict[Part, Layout] = {
    part: Layout(needed=(f"{part}/",), folders=("",), source=f"with PNG files as {part}/CLASS/IMAGE.png")
    for part in get_args(Part)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """File names of the Python batches of one of the two.

    Args:
        name: the dataset as the command line knows it.
        title: the dataset as its authors call it.
        archive: the official archive.
        folder: the folder it unpacks to.
        files: the batches of training images, in their order.
        test_file: the batch of test images.
        meta: the file of class names.
        labels_key: the entry of a batch with the classes.
        names_key: the entry of `meta` with the class names.
    """

    name: str
    title: str
    archive: str
    folder: str
    files: tuple[str, ...]
    test_file: str
    meta: str
    labels_key: str
    names_key: str

    def files_of(self, part: Part) -> tuple[str, ...]:
        """Return the batches of one part, in their order."""
        return self.files if part == "train" else (self.test_file,)

    def layout(self, part: Part) -> Layout:
        """Return the files by which the batches are recognised."""
        source = f"as the official archive {self.archive} unpacks them"
        return Layout(needed=(*self.files_of(part), self.meta), folders=("", self.folder), source=source)


def load_cifar(root: Path | None, batches: Batches, request: Request) -> tuple[Split, Truth]:
    """Return the images of one part, from the batches where they are there, else from PNG files."""
    part = request.part
    layouts = [batches.layout(part), _PNG[part]]
    layout, folder = find_layout(root, layouts, name=batches.name, title=batches.title, part=part)
    if layout is _PNG[part]:
        listing = _png_listing(folder / part, batches.name, part)
        return split_files(listing, folder / part, request)
    class_names = _class_names(folder / batches.meta, batches.names_key)
    parts = [_read_batch(folder / file, batches.labels_key) for file in batches.files_of(part)]
    rows_nd = np.concatenate([rows_nd for rows_nd, _ in parts])
    classes = np.concatenate([classes for _, classes in parts])
    file_names = [f"{part}-{index:05d}" for index in range(len(rows_nd))]
    listing = Listing(name=batches.name, file_names=file_names, classes=classes, class_names=class_names)
    # A row is the red plane, then the green one, then the blue one.
    return split_arrays(listing, rows_nd.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), request)


def _read_batch(path: Path, labels_key: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    batch = read_plain_pickle(path)
    rows_nd: Any = batch.get("data")
    labels: Any = batch.get(labels_key)
    is_rows = isinstance(rows_nd, np.ndarray) and rows_nd.dtype == np.uint8 and rows_nd.shape[1:] == (3072,)
    if not is_rows or not _is_list_of(labels, int) or len(labels) != len(rows_nd):
        raise DataError(f"D17: '{path}' must hold 'data', rows of 3,072 bytes, and '{labels_key}', a number for each.")
    return rows_nd, np.array(labels, dtype=np.int64)


def _class_names(path: Path, names_key: str) -> list[str]:
    names: Any = read_plain_pickle(path).get(names_key)
    if not _is_list_of(names, str):
        raise DataError(f"D17: '{path}' must hold '{names_key}', a list of class names.")
    return list(names)


def _is_list_of(values: object, kind: type) -> bool:
    return isinstance(values, list) and all(type(value) is kind for value in values)


def _png_listing(folder: Path, name: str, part: Part) -> Listing:
    names = class_folders(folder, n_classes=published_split(name).n_classes)
    # The official class names are in alphabetical order; some copies name the folders by the number of the class.
    names = sorted(names, key=int) if all(name.isdecimal() for name in names) else names
    found = images_by_class(folder, names)
    if part == "train":
        text = (
            f"PNG files do not keep the official order of '{name}': the labelled half is drawn by class and file name, "
            f"with the published count but different images. Use the python batches for the published half."
        )
        warn(text)
    return Listing(
        name=name,
        file_names=found.file_names,
        classes=found.classes,
        class_names=names,
        problems=found.problems,
    )
