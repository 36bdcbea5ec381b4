"""Stanford Cars: 196 models of cars, 98 of them old, with the annotations of the devkit or of its copy as CSV."""

from __future__ import annotations

import csv
from pathlib import Path, PurePosixPath

import numpy as np
from scipy.io import loadmat

from nngcd.core.errors import DataError
from nngcd.datasets.benchmark import Listing, split_files
from nngcd.datasets.file_tree import walk
from nngcd.datasets.image_files import ALLOWED_BAD, Progress
from nngcd.datasets.official_files import Layout, find_layout, read_lines
from nngcd.datasets.split import Split, Truth

_ANNOTATIONS, _META = "devkit/cars_train_annos.mat", "devkit/cars_meta.mat"
_ROWS, _NAMES = "anno_train.csv", "names.csv"
_DEVKIT = Layout(
    needed=(_ANNOTATIONS, _META, "cars_train/"),
    folders=("", "stanford_cars"),
    source="as the official archives car_devkit.tgz and cars_train.tgz unpack them",
)
_CSV = Layout(
    needed=(_ROWS, _NAMES, "car_data/"),
    folders=("",),
    source="as in the public copy with images as car_data/train/CLASS/IMAGE.jpg",
)


def load(
    root: Path | None, *, seed: int = 0, allow_bad: float = ALLOWED_BAD, on_progress: Progress | None = None
) -> tuple[Split, Truth | None]:
    """Return the training images of Stanford Cars, half of the images of the 98 old classes labelled.

    Classes are numbered as in the devkit. The official order, over which the half is drawn, is that of
    cars_train_annos.mat, which is that of the file names; rows of a CSV are therefore sorted by file name.

    Args:
        root: the folder that holds `devkit` and `cars_train`; or `car_data`, `names.csv` (a class name per line, in the
            devkit's order) and `anno_train.csv` (file name, four numbers of a box, class number from 1; with or
            without a line of headings).
        seed: not used; the published draw belongs to the benchmark, not to the run.
        allow_bad: share of missing or unreadable files above which the data are refused.
        on_progress: called with the number of files checked and their total.

    Raises:
        DataError: neither form is there, it cannot be read, or too many images are missing or unreadable.
    """
    layout, folder = find_layout(root, [_DEVKIT, _CSV], name="stanford_cars", title="Stanford Cars")
    annotated, class_names = _read_devkit(folder) if layout is _DEVKIT else _read_csv(folder)
    images = "cars_train" if layout is _DEVKIT else "car_data"
    paths = _training_paths(folder, images)
    listing = Listing(
        name="stanford_cars",
        file_names=[paths.get(name, f"{images}/{name}") for name, _ in annotated],
        classes=np.array([number - 1 for _, number in annotated], dtype=np.int64),
        class_names=class_names,
    )
    return split_files(listing, folder, allow_bad=allow_bad, on_progress=on_progress)


def _read_devkit(folder: Path) -> tuple[list[tuple[str, int]], list[str]]:
    """Return the file name and the class number, from 1, of each training image, and the class names."""
    path = folder / _META
    try:
        names = np.atleast_1d(loadmat(path, squeeze_me=True)["class_names"])
        path = folder / _ANNOTATIONS
        rows = np.atleast_1d(loadmat(path, squeeze_me=True)["annotations"])
        annotated = [(str(name), int(number)) for name, number in zip(rows["fname"], rows["class"], strict=True)]
    except Exception as error:  # on broken data scipy's reader raises nearly anything
        text = f"D17: '{path}' cannot be read as the devkit's file ({error}). Unpack car_devkit.tgz again."
        raise DataError(text) from error
    return annotated, [str(name) for name in names]


def _read_csv(folder: Path) -> tuple[list[tuple[str, int]], list[str]]:
    rows = [row for row in csv.reader(read_lines(folder / _ROWS)) if row]
    if rows and not rows[0][-1].strip().isdecimal():
        rows = rows[1:]
    wrong = [row for row in rows if len(row) != 6 or not row[-1].strip().isdecimal()]
    if wrong:
        found = ",".join(wrong[0])
        raise DataError(
            f"D17: '{folder / _ROWS}' must have six fields a row, the last a class number, found '{found}'."
        )
    return sorted((row[0].strip(), int(row[-1])) for row in rows), read_lines(folder / _NAMES)


def _training_paths(folder: Path, top: str) -> dict[str, str]:
    """Return where each training image lies, by its file name; copies differ in the folders between."""
    paths = [PurePosixPath(top, name) for name in walk(folder / top).file_names]
    # In the copy by class, test images lie beside training images and have the same names.
    return {path.name: str(path) for path in paths if "test" not in path.parts}
