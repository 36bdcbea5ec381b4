"""Corrections from folders: an export in which a person has moved files and renamed folders."""

from __future__ import annotations

import csv
import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pandas as pd

from nngcd.core.errors import DataError, NoSuchDataError, did_you_mean_path
from nngcd.core.words import count, quoted
from nngcd.data.file_tree import is_hidden
from nngcd.data.labels import UNLABELLED_FOLDERS
from nngcd.data.split import image_table
from nngcd.review.corrections import as_one_edit
from nngcd.review.session import Review
from nngcd.review.state import category_id

IMAGES, NAMES_FILE, REJECTED_FOLDER = "images", "names.csv", "_rejected"
"""Names an export gives its folder of folders and its list of changed names; and the folder for junk."""
ARRAY_ENDING = ".png"
"""Of an exported image that was no file."""


@dataclass(frozen=True, slots=True)
class Rearranged:
    """Where a person has put the images of a run."""

    folder_of: Mapping[str, str]
    """The folder of each image that was found, by its id."""
    unknown: list[str]
    """Files that are no image of the run, or that two images could be."""
    n_missing: int
    """Images of the run that are in no folder."""

    @property
    def notes(self) -> list[str]:
        """Sentences about the files and images that are left alone."""
        notes = []
        if self.unknown:
            notes.append(
                f"Not used: {count(len(self.unknown), 'file')} that the run does not have ({quoted(self.unknown)})."
            )
        if self.n_missing:
            them, stay = ("it", "stays as it is") if self.n_missing == 1 else ("them", "stay as they are")
            found = count(self.n_missing, "image")
            notes.append(f"{found} not in the folders {stay}. To reject {them}, use a folder '{REJECTED_FOLDER}'.")
        return notes


def read_folders(path: Path, results: pd.DataFrame) -> Rearranged:
    """Return where the images are in an exported folder; names say which they are, and contents where needed.

    Args:
        path: the folder of an export, or the folder `images` in it.
        results: the run's result table.

    Raises:
        NoSuchDataError: there is no such folder.
        DataError: it has no folders of images of this run, or an image is in two of them.
    """
    if not path.is_dir():
        raise NoSuchDataError(f"{path} is not a folder.{did_you_mean_path(path, Path.is_dir)}")
    root = path / IMAGES if (path / IMAGES).is_dir() else path
    try:
        files = sorted(_files(root))
        names = _Names(results, _changed_names(root))
    except OSError as error:
        raise DataError(f"cannot read {root} ({error.strerror or error}).") from None
    folder_of: dict[str, str] = {}
    unknown = []
    n_of_name = Counter(name for _, name in files)
    for folder, name in files:
        image = names.image(root / folder / name, is_only=n_of_name[name] == 1)
        if image is None:
            unknown.append(f"{folder}/{name}")
        elif folder_of.setdefault(image, folder) != folder:
            raise DataError(f"image '{name}' is in '{folder_of[image]}' and in '{folder}'. Remove one of the two.")
    if not folder_of:
        raise DataError(
            f"{root} has no folders with images of this run. Make them: nngcd export RUN --to folders --out {path}"
        )
    exported = {safe: name for name, safe in names.folders.items()}
    found = {image: exported.get(folder, folder) for image, folder in folder_of.items()}
    return Rearranged(found, unknown, len(results) - len(found))


def apply_folders(review: Review, found: Rearranged, *, is_preview: bool = False) -> list[str]:
    """Make the sorting of a run that of the folders, as one edit, and describe each change; a preview changes nothing.

    A category whose images are all in a folder of another name gets that name, or is merged into the category of that
    name. Other images move: to the category of their folder's name, or to a new one.

    Raises:
        UserError: a change is impossible; none is then applied.
    """
    return as_one_edit(review, _changes(review, found), is_preview=is_preview)


def _changes(review: Review, found: Rearranged) -> Iterator[str]:
    state = review.state
    now = {image: state.images[image].category for image in found.folder_of}
    folders_of: dict[str | None, set[str]] = defaultdict(set)
    for image, folder in found.folder_of.items():
        folders_of[now[image]].add(folder)
    for category, folders in sorted(folders_of.items(), key=lambda item: str(item[0])):
        if category is not None and len(folders) == 1 and not _is_special(folder := min(folders)):
            yield from _as_a_whole(review, category, folder)
    yield from _images(review, found)


def _as_a_whole(review: Review, category: str, folder: str) -> Iterator[str]:
    name, other = review.state.categories[category].name, category_id(review.state, folder)
    if folder in (category, name):
        return
    if other in review.state.live:
        review.merge([category, other], into=other)
        yield f"merge '{name}' into '{folder}'"
    else:
        review.rename(category, folder)
        yield f"name '{name}' '{folder}'"


def _images(review: Review, found: Rearranged) -> Iterator[str]:
    moved: dict[str, list[str]] = defaultdict(list)
    for image, folder in found.folder_of.items():
        placed = review.state.images[image]
        name = None if placed.category is None else review.state.categories[placed.category].name
        is_there = placed.is_rejected if folder.casefold() == REJECTED_FOLDER else folder in (placed.category, name)
        if not is_there and folder.casefold() not in UNLABELLED_FOLDERS:
            moved[folder].append(image)
    for folder, images in sorted(moved.items()):
        n = count(len(images), "image")
        if folder.casefold() == REJECTED_FOLDER:
            review.reject(images)
            yield f"reject {n}"
        elif (to := category_id(review.state, folder)) in review.state.live:
            review.move(images, to=to)
            yield f"move {n} to '{folder}'"
        else:
            review.rename(review.move(images), folder)
            yield f"move {n} to the new category '{folder}'"


def _is_special(folder: str) -> bool:
    return folder.casefold() in (REJECTED_FOLDER, *UNLABELLED_FOLDERS)


def _files(root: Path) -> Iterator[tuple[str, str]]:
    """Give folder and name of each file that is in a folder of the root; hidden ones are left out."""
    for folder in os.scandir(root):
        if folder.is_dir() and not is_hidden(folder.name):
            for file in os.scandir(folder.path):
                if file.is_file() and not is_hidden(file.name):
                    yield folder.name, file.name


class _Names:
    """The images that a file in an exported folder can be."""

    def __init__(self, results: pd.DataFrame, changed: list[dict[str, str]]) -> None:
        self.folders = {row["name"]: row["exported"] for row in changed if row["kind"] == "category"}
        other = {row["name"]: PurePosixPath(row["exported"]).name for row in changed if row["kind"] == "file"}
        self._images: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for image, file_name in zip(results["image_id"].tolist(), results["file_name"].tolist(), strict=True):
            base = other.get(file_name, PurePosixPath(file_name).name)
            self._images[base].append((image, file_name))
            if file_name not in other:
                self._images[base + ARRAY_ENDING].append((image, file_name))

    def image(self, path: Path, *, is_only: bool) -> str | None:
        """Return the id of the image in a file; the content decides where several images or files have its name."""
        named = self._images.get(path.name, [])
        if is_only and len(named) == 1:
            return named[0][0]
        if not named:
            return None
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        ids = image_table([file_name for _, file_name in named], [content] * len(named))["image_id"]
        same = [image for (image, _), now in zip(named, ids, strict=True) if image == now]
        return same[0] if len(same) == 1 else None


def _changed_names(root: Path) -> list[dict[str, str]]:
    """Return the names that the export had to change for the file system."""
    path = root / NAMES_FILE
    if not path.is_file():
        return []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except UnicodeDecodeError as error:
        raise DataError(f"cannot read {path} ({error}). Export the folders again.") from None
    if rows and not {"kind", "name", "exported"} <= rows[0].keys():
        raise DataError(f"{path} needs the columns kind, name and exported. Export the folders again.")
    return rows
