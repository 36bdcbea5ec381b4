"""Images in one folder per class, listed class by class as the field's code lists them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from nngcd.core.errors import DataError
from nngcd.data.file_tree import is_hidden, walk
from nngcd.data.image_files import EXTENSIONS
from nngcd.data.split import Problem


@dataclass(frozen=True, slots=True, eq=False)
class ClassImages:
    """Paths relative to the folder, the class (n,) of each as a place in the list of folders, and links left out."""

    file_names: list[str]
    classes: NDArray[np.int64]
    problems: tuple[Problem, ...]


def class_folders(folder: Path, *, n_classes: int) -> list[str]:
    """Return the names of the class folders, sorted as text.

    Raises:
        DataError: there are more or fewer than the benchmark has classes, so their places would mean other classes.
    """
    names = sorted(path.name for path in folder.iterdir() if path.is_dir() and not is_hidden(path.name))
    if len(names) != n_classes:
        found = f"found {len(names):,}" + (f", first '{names[0]}'" if names else "")
        raise DataError(
            f"D01: '{folder}' must hold {n_classes} class folders, {found}. Check that the copy is complete."
        )
    return names


def images_by_class(folder: Path, folder_names: Sequence[str]) -> ClassImages:
    """Return the images of the class folders in the order of torchvision's ImageFolder: by folder, then by file name.

    Args:
        folder: what holds the class folders; others in it are left alone.
        folder_names: the class folders in the order of their classes; one that is not there has no images.
    """
    file_names: list[str] = []
    classes: list[int] = []
    problems: list[Problem] = []
    for number, name in enumerate(folder_names):
        if not (folder / name).exists():
            continue
        tree = walk(folder / name)
        images = [path for path in tree.file_names if PurePosixPath(path).suffix.lower() in EXTENSIONS]
        file_names += [f"{name}/{path}" for path in images]
        classes += [number] * len(images)
        problems += [Problem(f"{name}/{problem.file_name}", problem.code, problem.reason) for problem in tree.problems]
    return ClassImages(file_names, np.array(classes, dtype=np.int64), tuple(problems))
