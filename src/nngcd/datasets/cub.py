"""CUB-200-2011: 200 species of birds, 100 of them old, in the official file layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nngcd.core.errors import DataError
from nngcd.data.split import Split, Truth
from nngcd.datasets.benchmark import TRAINING, Listing, Request, split_files
from nngcd.datasets.counts import Part
from nngcd.datasets.official_files import Layout, find_layout, read_pairs
from nngcd.datasets.published_splits import published_split

_TABLES = ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt")
_LAYOUT = Layout(
    needed=(*_TABLES, "images/"),
    folders=("", "CUB_200_2011"),
    source="as the official archive CUB_200_2011.tgz unpacks them",
)


def load(root: Path | None, request: Request = TRAINING) -> tuple[Split, Truth | None]:
    """Return the training images of CUB-200-2011, half of the images of the 100 old classes labelled.

    The official order, over which the half is drawn, is that of images.txt.

    Args:
        root: the folder `CUB_200_2011` of the official archive, or the folder that holds it.
        request: which images are wanted, and how.
    """
    _, folder = find_layout(root, [_LAYOUT], name="cub", title="CUB-200-2011", part=request.part)
    file_names, classes, class_names = _images(folder, request.part, n_classes=published_split("cub").n_classes)
    listing = Listing(name="cub", file_names=file_names, classes=classes, class_names=class_names)
    return split_files(listing, folder / "images", request)


def _images(folder: Path, part: Part, *, n_classes: int) -> tuple[list[str], NDArray[np.int64], list[str]]:
    """Return names and 0-based official classes of one part's images in the order of images.txt, and class names."""
    is_wanted = "1" if part == "train" else "0"
    images, classes, is_training, names = (read_pairs(folder / name) for name in _TABLES)
    if list(names) != [str(number + 1) for number in range(n_classes)]:
        raise DataError(f"'{folder / 'classes.txt'}' must number {n_classes} classes from 1, found {len(names)} lines.")
    try:
        kept = [image_id for image_id in images if is_training[image_id] == is_wanted]
        numbers = np.array([int(classes[image_id]) - 1 for image_id in kept], dtype=np.int64)
    except (KeyError, ValueError) as error:
        raise DataError(f"the tables in '{folder}' do not match ({error}); unpack the archive again.") from None
    return [images[image_id] for image_id in kept], numbers, list(names.values())
