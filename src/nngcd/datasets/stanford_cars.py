"""Stanford Cars: 196 models of cars, 98 of them old, with the annotations of the devkit or of its copy as CSV."""

from __future__ import annotations

import csv
from pathlib import Path, PurePosixPath

import numpy as np
from scipy.io import loadmat

from nngcd.core.errors import DataError
from nngcd.data.file_tree import walk
from nngcd.data.split import Split, Truth
from nngcd.datasets.benchmark import TRAINING, Listing, Request, split_files
from nngcd.datasets.counts import Part
from nngcd.datasets.official_files import Layout, find_layout, read_lines

_META, _NAMES = "devkit/cars_meta.mat", "names.csv"
# The devkit's own annotations of test images have no labels; those with labels came later, as a file of their own.
_WITH_LABELS = "cars_test_annos_withlabels.mat"
_ANNOTATIONS: dict[Part, tuple[str, ...]] = {
    "train": ("devkit/cars_train_annos.mat",),
    "test": (f"devkit/{_WITH_LABELS}", _WITH_LABELS),
}


def load(root: Path | None, request: Request = TRAINING) -> tuple[Split, Truth | None]:
    """Return the training images of Stanford Cars, half of the images of the 98 old classes labelled.

    Classes are numbered as in the devkit. The official order, over which the half is drawn, is that of
    cars_train_annos.mat, which is that of the file names; rows of a CSV are therefore sorted by file name.

    Args:
        root: the folder that holds `devkit` and `cars_train`; or `car_data`, `names.csv` (a class name per line, in the
            devkit's order) and `anno_train.csv` (file name, four numbers of a box, class number from 1; with or
            without a line of headings).
        request: which images are wanted, and how.
    """
    part = request.part
    layout, folder = find_layout(root, _layouts(part), name="stanford_cars", title="Stanford Cars", part=part)
    table, names, images = (folder / name for name in layout.needed)
    annotated, class_names = (_read_devkit if table.suffix == ".mat" else _read_csv)(table, names)
    paths = _image_paths(folder, images.name, part)
    listing = Listing(
        name="stanford_cars",
        file_names=[paths.get(name, f"{images.name}/{name}") for name, _ in annotated],
        classes=np.array([number - 1 for _, number in annotated], dtype=np.int64),
        class_names=class_names,
    )
    return split_files(listing, folder, request)


def _layouts(part: Part) -> list[Layout]:
    """Return the forms of one part: annotations, class names and images, in this order."""
    archives = (
        "car_devkit.tgz and cars_train.tgz" if part == "train" else f"car_devkit.tgz, cars_test.tgz, {_WITH_LABELS}"
    )
    devkit = [
        Layout(
            needed=(annotations, _META, f"cars_{part}/"),
            folders=("", "stanford_cars"),
            source=f"as the official archives {archives} unpack them",
        )
        for annotations in _ANNOTATIONS[part]
    ]
    rows = Layout(
        needed=(f"anno_{part}.csv", _NAMES, "car_data/"),
        folders=("",),
        source=f"as in the public copy with images as car_data/{part}/CLASS/IMAGE.jpg",
    )
    return [*devkit, rows]


def _read_devkit(table: Path, meta: Path) -> tuple[list[tuple[str, int]], list[str]]:
    """Return the file name and the class number, from 1, of each image, and the class names."""
    path = meta
    try:
        names = np.atleast_1d(loadmat(path, squeeze_me=True)["class_names"])
        path = table
        rows = np.atleast_1d(loadmat(path, squeeze_me=True)["annotations"])
        annotated = [(str(name), int(number)) for name, number in zip(rows["fname"], rows["class"], strict=True)]
    except Exception as error:  # on broken data scipy's reader raises nearly anything
        text = f"D17: '{path}' cannot be read as the devkit's file ({error}). Unpack car_devkit.tgz again."
        raise DataError(text) from error
    return annotated, [str(name) for name in names]


def _read_csv(table: Path, names: Path) -> tuple[list[tuple[str, int]], list[str]]:
    rows = [row for row in csv.reader(read_lines(table)) if row]
    if rows and not rows[0][-1].strip().isdecimal():
        rows = rows[1:]
    wrong = [row for row in rows if len(row) != 6 or not row[-1].strip().isdecimal()]
    if wrong:
        found = ",".join(wrong[0])
        raise DataError(f"D17: '{table}' must have six fields a row, the last a class number, found '{found}'.")
    return sorted((row[0].strip(), int(row[-1])) for row in rows), read_lines(names)


def _image_paths(folder: Path, top: str, part: Part) -> dict[str, str]:
    """Return the path of each image of one part by its file name; copies differ in the folders between."""
    paths = [PurePosixPath(top, name) for name in walk(folder / top).file_names]
    other = "test" if part == "train" else "train"
    # In the copy by class, test images are next to training images and have the same names.
    return {path.name: str(path) for path in paths if other not in path.parts}
