"""The images of a run, found where they are now: for the report, the review page, exports, scoring and figures."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nngcd.core.config import build
from nngcd.core.errors import ConfigError, DataError, UserError
from nngcd.core.progress import OnProgress
from nngcd.data.csv_rows import TABLE_EXTENSIONS
from nngcd.data.decoding import UnreadableError
from nngcd.data.image_content import read_image_file
from nngcd.data.image_files import ImageFiles
from nngcd.data.reading_settings import ReadingSettings
from nngcd.data.sampling import SomeImages
from nngcd.data.split import Images, Split, Truth, image_table
from nngcd.datasets.counts import Part
from nngcd.datasets.opening import open_dataset
from nngcd.datasets.places import known_places

CHANGED = "changed since the run"
N_PROBED, N_LEVELS = 20, 3
"""File names by which a folder is recognised, and how deep below a place it may be, as benchmarks keep their images."""


@dataclass(frozen=True, slots=True)
class Pictures:
    """The images of a run in the order of its results, or why there are none to show."""

    images: Images | None
    why_none: str = ""


def find_pictures(
    summary: Mapping[str, Any], settings: Mapping[str, Any], results: pd.DataFrame, root: Path | None
) -> Pictures:
    """Return the images of a run, or why they cannot be shown.

    Files are taken straight from their folder. Reading a data set again would decode every one of them.

    Raises:
        ConfigError: `root` does not hold the images of the run.
    """
    if summary["backbone"] == "features":
        return Pictures(None, "This run was made from features, not images, so there is nothing to show.")
    file_names = tuple(str(name) for name in results["file_name"])
    try:
        check_inside(file_names)
    except DataError as error:
        return Pictures(None, str(error))
    if folder := find_folder(settings, results, root):
        return Pictures(ImageFiles(folder, file_names))
    if root is not None:
        raise ConfigError("--root", str(root), f"does not hold the images of this run, such as '{file_names[0]}'")
    return _opened_again(settings, results)


def check_inside(file_names: Iterable[str]) -> None:
    """Raise `DataError` (D18) where results name a file outside the data folder: a run may come from a stranger."""
    for name in file_names:
        # Only a name like this can lead outside; taking every name apart would last seconds.
        is_odd = ".." in name or ":" in name or name.startswith(("/", "\\"))
        if is_odd and (Path(name).is_absolute() or ".." in Path(name).parts):
            raise DataError(f"D18: the results name a file outside the data folder: '{name}'.")


def find_folder(settings: Mapping[str, Any], results: pd.DataFrame, root: Path | None) -> Path | None:
    """Return the folder that the file names of results are relative to; None where none of the files is found.

    Args:
        settings: of the run, as in config.yaml.
        results: one row per image, with `file_name` and `image_id`.
        root: where the images are now, as the user says; the only place that is then looked at.
    """
    probed = results.iloc[:: max(1, len(results) // N_PROBED)]
    id_of = dict(zip(probed["file_name"].astype(str), probed["image_id"], strict=True))
    for place in [root] if root else places(settings):
        if id_of and (folder := _folder_in(place, id_of)):
            return folder
    return None


def places(settings: Mapping[str, Any]) -> Iterator[Path]:
    """Give the folders in which the images of a run may be, if they are files."""
    image_root, data = reading_of(settings).image_root, Path(str(settings["data"]))
    if image_root:
        yield Path(image_root)
    if settings.get("dataset") in (None, str(data)) and (place := known_places().get(str(data))):
        yield Path(place)  # a benchmark that was added under its name
    if data.is_dir():
        yield data
    elif data.is_file() and data.suffix.lower() in TABLE_EXTENSIONS:
        yield data.parent


def _folder_in(place: Path, id_of: Mapping[str, str]) -> Path | None:
    """Return the place itself or a folder below: one with an unchanged image, or else the first with the file names.

    The second guess may be wrong, but shows no wrong picture: every image is compared with the hash it had in the run.
    """
    guess = None
    for folder in chain([place], _folders_below(place, N_LEVELS)):
        there = [name for name in id_of if (folder / name).is_file()]
        if any(_id_now(folder, name) == id_of[name] for name in there):
            return folder
        guess = guess or (folder if there else None)
    return guess


def _id_now(folder: Path, file_name: str) -> str | None:
    try:
        content = read_image_file(folder / file_name)
    except (OSError, UnreadableError):
        return None
    return str(image_table([file_name], [hashlib.sha256(content).hexdigest()])["image_id"].iat[0])


def _folders_below(place: Path, n_levels: int) -> Iterator[Path]:
    try:
        with os.scandir(place) as entries:
            folders = sorted(place / entry.name for entry in entries if entry.is_dir())
    except OSError:  # a folder that may not be looked into holds none of our images
        return
    yield from folders
    if n_levels > 1:
        for folder in folders:
            yield from _folders_below(folder, n_levels - 1)


def reopened(
    settings: Mapping[str, Any], *, part: Part = "train", on_progress: OnProgress | None = None
) -> tuple[Split, Truth | None]:
    """Return what a run was made from, opened as the run opened it."""
    data, dataset, reading = str(settings["data"]), settings.get("dataset"), reading_of(settings)
    return open_dataset(data, dataset=dataset, reading=reading, part=part, on_progress=on_progress)


def reading_of(settings: Mapping[str, Any]) -> ReadingSettings:
    """Return how the data of a run were read."""
    return build(ReadingSettings, settings.get("reading") or {})


def _opened_again(settings: Mapping[str, Any], results: pd.DataFrame) -> Pictures:
    """Return the images of a data set that is not a folder of files, such as the digits or an .npz archive."""
    missing = "The images were moved or deleted after the run"
    again = "Say where they are now: nngcd report RUN --root FOLDER"
    try:
        split, _ = reopened(settings)
    except UserError as error:
        return Pictures(None, f"{missing} ({error}) {again}")
    row_of = {image_id: row for row, image_id in enumerate(split.table["image_id"])}
    if split.images is None or not row_of.keys() >= set(results["image_id"]):
        return Pictures(None, f"The images of {settings['data']} have changed since the run. {again}")
    return Pictures(SomeImages(split.images, np.array([row_of[one] for one in results["image_id"]], dtype=np.int64)))
