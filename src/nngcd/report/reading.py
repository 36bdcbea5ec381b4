"""From a run folder to what a report tells of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nngcd.core.config import build
from nngcd.core.errors import ConfigError, UserError
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_config, read_environment, read_features, read_problems
from nngcd.datasets import open_dataset
from nngcd.datasets.file_tree import leads_out
from nngcd.datasets.image_files import ImageFiles
from nngcd.datasets.manifest_rows import TABLE_EXTENSIONS
from nngcd.datasets.places import known_places
from nngcd.datasets.reading import Config as ReadingConfig
from nngcd.datasets.sampling import SomeImages
from nngcd.report.findings import Findings, Pictures, is_sorted
from nngcd.review.reviewed import reviewed_results
from nngcd.run_files import read_estimate

N_PROBED = 20
"""File names by which a folder is recognised as the one the images lie in."""


def read_findings(run: RunFolder, *, root: Path | None = None) -> Findings:
    """Return everything a finished run folder holds, and where its images are.

    Args:
        run: a finished run.
        root: the folder the images lie in now, if they were moved.

    Raises:
        DataError: the run is not finished, or a file of it is missing or damaged.
        ConfigError: `root` does not hold the images of the run.
    """
    run.check_complete()
    summary, settings = run.read_summary(), read_config(run)
    results, categories = read_results(run)
    # A person may have taken images out after they were sorted.
    is_sorted_n = is_sorted(results)
    features_nd = read_features(run, len(results)).float().numpy()[is_sorted_n]
    results = results[is_sorted_n].reset_index(drop=True)
    return Findings(
        title=run.path.resolve().name,
        results=results,
        categories=categories,
        features_nd=features_nd,
        pictures=find_pictures(summary, settings, results, root),
        summary=summary,
        k_estimate=read_estimate(run) if summary.get("k_estimate") and run.k.is_file() else None,
        epochs=run.read_metrics(),
        problems=read_problems(run),
        settings=settings,
        environment=read_environment(run),
    )


def read_results(run: RunFolder) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the results of all images that were used, and id, name and kind of each category, as reviewed."""
    reviewed = reviewed_results(run)
    return reviewed.table[reviewed.table["image_id"].notna()], reviewed.categories[["id", "name", "kind"]]


def find_pictures(
    summary: dict[str, Any], settings: dict[str, Any], results: pd.DataFrame, root: Path | None
) -> Pictures:
    """Return the images of a run, or why they cannot be shown.

    Files are taken straight from their folder. Reading a data set again would decode every one of them.

    Raises:
        ConfigError: `root` does not hold the images of the run.
    """
    if summary["backbone"] == "features":
        return Pictures(None, "This run was made from features, not from images: there is nothing to show.")
    file_names = tuple(str(name) for name in results["file_name"])
    if outside := [name for name in file_names if leads_out(name)]:
        return Pictures(None, f"The results name a file outside the data folder (D18): {outside[0]}.")
    if root is not None:
        folder = _folder_of(root, file_names)
        if folder is None:
            raise ConfigError("--root", str(root), f"does not hold the images of this run, such as '{file_names[0]}'")
        return Pictures(ImageFiles(folder, file_names))
    for place in _places(settings):
        if folder := _folder_of(place, file_names):
            return Pictures(ImageFiles(folder, file_names))
    return _opened_again(settings, results)


def _places(settings: dict[str, Any]) -> Iterator[Path]:
    """Give the folders in which the images of a run may lie."""
    image_root, data = settings.get("reading", {}).get("image_root"), Path(str(settings["data"]))
    if image_root:
        yield Path(image_root)
    if settings.get("dataset") in (None, str(data)) and (place := known_places().get(str(data))):
        yield Path(place)  # a benchmark that was added under its name
    if data.is_dir():
        yield data
    elif data.is_file() and data.suffix.lower() in TABLE_EXTENSIONS:
        yield data.parent


def _folder_of(place: Path, file_names: Sequence[str]) -> Path | None:
    """Return the folder that file names are relative to: the place itself, or one up to two levels below.

    Benchmarks keep their images in a folder such as CUB_200_2011/images. A wrong guess shows no wrong picture: every
    image is compared with the hash it had in the run.
    """
    probed = file_names[:: max(1, len(file_names) // N_PROBED)]
    if not place.is_dir() or not probed:
        return None
    for candidate in (place, *_folders_below(place, levels=2)):
        if any((candidate / name).is_file() for name in probed):
            return candidate
    return None


def _folders_below(place: Path, *, levels: int) -> Iterator[Path]:
    try:
        folders = sorted(path for path in place.iterdir() if path.is_dir())
    except OSError:  # a folder that may not be looked into holds none of our images
        return
    yield from folders
    if levels > 1:
        for folder in folders:
            yield from _folders_below(folder, levels=levels - 1)


def _opened_again(settings: dict[str, Any], results: pd.DataFrame) -> Pictures:
    """Return the images of a data set that is no folder of files, such as the digits or an archive of arrays."""
    missing = "The images are not where they were when the run was made"
    again = "Say where they are now: nngcd report RUN --root FOLDER"
    data, reading = str(settings["data"]), build(ReadingConfig, settings.get("reading", {}))
    try:
        split, _ = open_dataset(data, dataset=settings.get("dataset"), reading=reading)
    except UserError as error:
        return Pictures(None, f"{missing} ({error}) {again}")
    row_of = {image_id: row for row, image_id in enumerate(split.table["image_id"])}
    if split.images is None or not row_of.keys() >= set(results["image_id"]):
        return Pictures(None, f"The images of {data} have changed since the run. {again}")
    return Pictures(SomeImages(split.images, np.array([row_of[one] for one in results["image_id"]], dtype=np.int64)))
