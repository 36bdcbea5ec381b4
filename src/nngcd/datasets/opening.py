"""Datasets: one file each, found by name, and one door that opens whatever the user points at."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path

from nngcd.core.components import component_names, find_component
from nngcd.core.errors import ConfigError, DataError
from nngcd.core.progress import OnProgress
from nngcd.data.csv_rows import SPREADSHEET_EXTENSIONS, TABLE_EXTENSIONS, is_table
from nngcd.data.decisions import with_decisions_of
from nngcd.data.file_tree import no_such_path
from nngcd.data.hiding import hide_classes
from nngcd.data.listed import Listed, warn_of_notes
from nngcd.data.packed_files import ENDINGS as PACKED
from nngcd.data.packed_files import packed_kind
from nngcd.data.reading_settings import ReadingSettings
from nngcd.data.sampling import fewer_labels, labelled_and_some, long_tail, some_of
from nngcd.data.shrinking import Shrinker
from nngcd.data.sources import Source, source_of_files, source_of_split
from nngcd.data.split import Split, Truth
from nngcd.datasets.arrays import is_array_file
from nngcd.datasets.benchmark import Request
from nngcd.datasets.counts import Part
from nngcd.datasets.places import place_of
from nngcd.datasets.published_splits import published_names

Root = Path | str | None
"""Where a dataset lies; an address or a pattern is no path."""


def open_dataset(
    data: str,
    *,
    dataset: str | None = None,
    reading: ReadingSettings | None = None,
    on_progress: OnProgress | None = None,
    shrinker: Shrinker | None = None,
    part: Part = "train",
) -> tuple[Split, Truth | None]:
    """Return the split, and the truth where there is one, of a path or of a dataset known by name.

    Args:
        data: a folder, a table (.csv, .tsv, .parquet), an .npz file, or a name: `digits`, or a benchmark that was
            added with `nngcd data add`. What exists as a path is read as a path, whatever its name.
        dataset: the name of the dataset that is at `data`, for example `cub`; found from the path by default.
        reading: how the data are read.
        on_progress: called with the number of files read and their total, by datasets that read files.
        shrinker: keeps what a network will need of large images; for the user's own.
        part: the images to learn from, or a benchmark's official test images, which carry no labels.

    Raises:
        DataError: nothing is there, or it cannot be used, or it has no test images.
        UserError: no dataset of that name.
    """
    name, root, reading = locate(data, dataset, reading)
    load = find_component("nngcd.datasets", name, "load").load
    request = Request(part=part, draw=reading.draw, allow_bad=reading.allow_bad, on_progress=on_progress)
    options = _accepted(
        load, on_progress=on_progress, draw=reading.draw, reading=reading, request=request, shrinker=shrinker
    )
    if part != "train" and "request" not in options:
        raise DataError(f"'{data}' has no official test images; benchmarks have: {', '.join(published_names())}.")
    if reading.draw != "pooled" and not options.keys() & {"draw", "request"}:
        raise ConfigError("reading.draw", reading.draw, f"'{data}' has its own labels; only benchmarks draw them")
    split, truth = load(root, **options)
    return changed(split, truth, reading) if part == "train" else (split, truth)


def changed(split: Split, truth: Truth | None, reading: ReadingSettings) -> tuple[Split, Truth | None]:
    """Return the data as wanted: fewer images or labels, a long tail, the task in miniature, the labels of a review.

    Raises:
        ConfigError: a long tail is wanted of classes that are not known.
    """
    if reading.n_images:
        split, truth = some_of(split, truth, reading.n_images)
    if reading.sample:
        split, truth = labelled_and_some(split, truth, reading.sample)
    if reading.long_tail:
        if truth is None:
            raise ConfigError("reading.long_tail", reading.long_tail, f"the true classes of {split.name} are not known")
        split, truth = long_tail(split, truth, reading.long_tail)
    if reading.labels_per_class:
        split = fewer_labels(split, reading.labels_per_class)
    if reading.hide_classes:
        split, truth = hide_classes(split, reading.hide_classes, fold=reading.fold)
    # A person's categories need not be those of the benchmark, so its truth no longer says what is old.
    return (with_decisions_of(split, Path(reading.decisions)), None) if reading.decisions else (split, truth)


def open_images(
    data: str,
    *,
    dataset: str | None = None,
    reading: ReadingSettings | None = None,
    on_progress: OnProgress | None = None,
) -> Split:
    """Return images that are only to be looked at: labels are left aside, and any number of files may be unreadable.

    The arguments are those of `open_dataset`; `reading` is what the training images were read with.
    """
    name, root, reading = locate(data, dataset, reading)
    reading = dataclasses.replace(reading, allow_bad=1.0)
    load = find_component("nngcd.datasets", name, "load").load
    request = Request(allow_bad=reading.allow_bad, on_progress=on_progress)
    options = _accepted(load, on_progress=on_progress, use_labels=False, reading=reading, request=request)
    split: Split = load(root, **options)[0]
    return split


def open_source(
    data: str,
    *,
    dataset: str | None = None,
    reading: ReadingSettings | None = None,
    use_labels: bool = True,
    on_progress: OnProgress | None = None,
) -> Source:
    """Return the images or features of whatever the user points at, in units that are read as they are needed."""
    name, root, settled = locate(data, dataset, reading)
    module = find_component("nngcd.datasets", name, "load")
    if hasattr(module, "source"):
        source: Source = module.source(root, settled, use_labels=use_labels)
        return source
    if hasattr(module, "find"):
        listed: Listed = module.find(root, settled, use_labels=use_labels)
        warn_of_notes(listed)
        return source_of_files(listed, settled.decoding)
    return source_of_split(open_images(data, dataset=dataset, reading=reading, on_progress=on_progress))


def _accepted(load: Callable[..., object], **options: object) -> dict[str, object]:
    """Return those options that a dataset knows; not every dataset reads files or has labels to leave aside."""
    parameters = inspect.signature(load).parameters
    return {name: value for name, value in options.items() if name in parameters}


def locate(data: str, dataset: str | None, reading: ReadingSettings | None) -> tuple[str, Root, ReadingSettings]:
    """Return the name of the dataset, its place (None when it has none or was not added), and how it is read."""
    if not data:
        raise ConfigError(
            "DATA", data, "is empty; give a folder, a table, an .npz file or a dataset (`.`: this folder)"
        )
    reading = reading or ReadingSettings()
    if dataset is None and (kind := packed_kind(data)):
        return kind, data, reading
    if reading.labels is None or dataset in PACKED:
        return *_locate(data, dataset), reading
    if not Path(data).is_dir():
        raise ConfigError(
            "--labels", reading.labels, f"gives the labels of a folder of images, but '{data}' is not one"
        )
    rest = "unlabelled" if reading.rest == "auto" else reading.rest
    return "manifest", Path(reading.labels), dataclasses.replace(reading, labels=None, image_root=data, rest=rest)


def _locate(data: str, dataset: str | None) -> tuple[str, Root]:
    if dataset is None:
        return _recognise(data)
    if dataset in PACKED:
        return dataset, data
    if data != dataset:
        return dataset, Path(data)
    # A name; only where nothing was added under it, a folder that happens to be called so.
    return dataset, place_of(dataset) or (Path(data) if Path(data).exists() else None)


def _recognise(data: str) -> tuple[str, Path | None]:
    path, suffix = Path(data), Path(data).suffix.lower()
    if path.is_dir():
        return "folder", path
    if path.is_file():
        if suffix in TABLE_EXTENSIONS + SPREADSHEET_EXTENSIONS:
            return "manifest", path
        if suffix == ".npz":
            return "arrays", path
        raise DataError(
            f"D02: '{path}' cannot be opened. Give a table ({', '.join(TABLE_EXTENSIONS)}), arrays (.npz) or a "
            f"folder of images."
        )
    names = component_names("nngcd.datasets", "load")
    if data in names:
        return data, place_of(data)
    kinds = "folder, table, .npz file or dataset"
    raise no_such_path(path, expected=kinds, is_wanted=_can_be_opened, other_names=names)


def _can_be_opened(path: Path) -> bool:
    return path.is_dir() or is_table(path) or is_array_file(path)
