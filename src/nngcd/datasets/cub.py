"""CUB-200-2011: 200 species of birds, 100 of them old, in the official file layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nngcd.core.errors import DataError
from nngcd.datasets.image_files import ALLOWED_BAD, Progress, keep_readable
from nngcd.datasets.published import published_split
from nngcd.datasets.split import UNLABELLED, Split, Truth, draw_labelled, image_table, relabel

FOLDER = "CUB_200_2011"
_TABLES = ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt")


def load(
    root: Path | None, *, seed: int = 0, allow_bad: float = ALLOWED_BAD, on_progress: Progress | None = None
) -> tuple[Split, Truth | None]:
    """Return the training images of CUB-200-2011, half of the images of the 100 old classes labelled.

    Args:
        root: the folder `CUB_200_2011` of the official archive, or the folder that holds it.
        seed: not used; the published draw belongs to the benchmark, not to the run.
        allow_bad: share of missing or unreadable files above which the data are refused.
        on_progress: called with the number of files checked and their total.

    Raises:
        DataError: the official files are not there, or too many images are missing or unreadable.
    """
    folder = _official_folder(root)
    published = published_split("cub")
    file_names, official_classes, official_names = _training_images(folder, n_classes=published.n_classes)
    classes, class_names = relabel(official_classes, official_names, published.old_classes)
    n_old = len(published.old_classes)
    # The published draw uses numpy's legacy generator. It is made over all listed images, before missing ones are
    # left out, so that one missing file does not change the labels of the others.
    is_labelled = draw_labelled(classes < n_old, generator=np.random.RandomState(0))
    labels = np.where(is_labelled, classes, UNLABELLED)

    readable = keep_readable(folder / "images", file_names, allow_bad=allow_bad, on_progress=on_progress)
    kept_names = readable.images.file_names
    table = image_table(kept_names, readable.content_hashes, split=["train"] * len(kept_names))
    split = Split(
        name="cub",
        images=readable.images,
        features_nvd=None,
        labels=labels[readable.kept],
        class_names=class_names[:n_old],
        table=table,
        problems=readable.problems,
        n_classes=published.n_classes,
    )
    return split, Truth(classes=classes[readable.kept], class_names=class_names, n_old=n_old)


def _official_folder(root: Path | None) -> Path:
    if root is None:
        raise DataError(f"D01: the dataset 'cub' needs the folder that holds {FOLDER}.")
    for folder in (root, root / FOLDER):
        if all((folder / name).is_file() for name in _TABLES) and (folder / "images").is_dir():
            return folder
    expected = f"{', '.join(_TABLES)} and images/"
    state = "holds something else" if root.is_dir() else "is not a folder"
    raise DataError(
        f"D01: no CUB-200-2011 in '{root}', which {state}. Expected {expected} there or in '{root / FOLDER}', "
        f"as the official archive CUB_200_2011.tgz unpacks them."
    )


def _training_images(folder: Path, *, n_classes: int) -> tuple[list[str], NDArray[np.int64], list[str]]:
    """Return names and 0-based official classes of the training images in the order of images.txt, and class names."""
    images, classes, is_training, names = (_read_pairs(folder / name) for name in _TABLES)
    if list(names) != [str(number + 1) for number in range(n_classes)]:
        raise DataError(f"'{folder / 'classes.txt'}' must number {n_classes} classes from 1, found {len(names)} lines.")
    try:
        kept = [image_id for image_id in images if is_training[image_id] == "1"]
        numbers = np.array([int(classes[image_id]) - 1 for image_id in kept], dtype=np.int64)
    except (KeyError, ValueError) as error:
        raise DataError(f"the tables in '{folder}' do not fit together ({error}); unpack the archive again.") from None
    if len(kept) == 0 or numbers.min() < 0 or numbers.max() >= n_classes:
        raise DataError(f"'{folder}' lists no training images, or classes outside 1 to {n_classes}.")
    return [images[image_id] for image_id in kept], numbers, list(names.values())


def _read_pairs(path: Path) -> dict[str, str]:
    pairs = (line.split(maxsplit=1) for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    return {pair[0]: pair[-1].strip() for pair in pairs}
