"""Sources of images or features in units that are each read on their own, so that any number of processes share them.

`nngcd embed`, `nngcd predict`, `nngcd.Embedder` and `nngcd.Predictor` all read `Rows`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nngcd.data.decoding import Decoding, decode_rgb
from nngcd.data.image_content import read_image_file
from nngcd.data.listed import Listed
from nngcd.data.packs import Pack
from nngcd.data.split import EMPTY_FOLDER, Images, Problem, Split

IMAGES_PER_READ = 1024
"""Images that are read, passed through the network and written before the next ones are looked at."""
FEATURES_PER_READ = 65_536
Opener = Callable[[int, int], tuple[Image.Image, str]]
"""Returns an image of some rows, decoded for a short side, and the hash of its content.

Raises `UnreadableError` or `OSError` where there is no image.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Some rows of a source: images that are opened one at a time, or features, and what could not be read.

    Args:
        file_names: (n) the name of each image.
        opened: opens the images; None where the rows are features.
        features_nd: (n, d) features; None where the rows are images.
        image_ids: (n) ids that are known already; those of images are otherwise made from their content.
        labels: (n) the label given to each image, where the source has labels.
        problems: what is left out.
    """

    file_names: Sequence[str] = ()
    opened: Opener | None = None
    features_nd: NDArray[np.float32] | None = None
    image_ids: Sequence[str] | None = None
    labels: Sequence[str | None] | None = None
    problems: Sequence[Problem] = ()


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of a source: its name, which changes when other images are in it, and how it is read."""

    name: str
    read: Callable[[], Iterator[Rows]]
    n_rows: int | None = None
    """None where only reading tells."""


@dataclass(frozen=True, slots=True)
class Source:
    """Everything that the user points at."""

    name: str
    units: Sequence[Unit]
    n_features: int | None = None
    """Features per row; None where the rows are images."""
    image_size: int | None = None
    """The side in pixels that the images are best read at, where it differs from the network's own."""

    @property
    def n_rows(self) -> int | None:
        """The number of rows; None where only reading tells."""
        known = [unit.n_rows for unit in self.units if unit.n_rows is not None]
        return sum(known) if len(known) == len(self.units) else None


def encoded(content: Callable[[int], bytes], decoding: Decoding) -> Opener:
    """Return what opens images whose encoded content is fetched by a function."""

    def open_(row: int, short_side: int) -> tuple[Image.Image, str]:
        data = content(row)
        return decode_rgb(data, decoding, short_side=short_side), hashlib.sha256(data).hexdigest()

    return open_


def source_of_files(listed: Listed, decoding: Decoding) -> Source:
    """Return the images that a folder or table lists, in blocks of files; what is left out already comes last."""
    names, units = listed.file_names, []
    labels = listed.labels if any(label is not None for label in listed.labels) else None
    for start in range(0, len(names), IMAGES_PER_READ):
        some = slice(start, start + IMAGES_PER_READ)
        opened = encoded(partial(_content_of, listed.folder, names[some], decoding), decoding)
        rows = Rows(file_names=names[some], opened=opened, labels=None if labels is None else labels[some])
        units.append(Unit(_block_name(names[some]), partial(_only, rows), len(names[some])))
    problems = [one for one in (*listed.problems, *listed.missing) if one.code != EMPTY_FOLDER]
    return Source(listed.name, [*units, *_left_out(problems)])


def _content_of(folder: Path | Pack, file_names: Sequence[str], decoding: Decoding, row: int) -> bytes:
    return read_image_file(folder / file_names[row], decoding)


def source_of_split(split: Split) -> Source:
    """Return data in memory, or a benchmark, as a source."""
    step = IMAGES_PER_READ if split.images is not None else FEATURES_PER_READ
    units = []
    for start in range(0, len(split), step):
        rows = range(start, min(start + step, len(split)))
        units.append(Unit(f"rows {rows.start}", partial(_rows_of, split, rows), len(rows)))
    n_features = None if split.features_nvd is None else split.features_nvd.shape[-1]
    return Source(split.name, [*units, *_left_out(split.problems)], n_features, split.image_size)


def _only(rows: Rows) -> Iterator[Rows]:
    yield rows


def _rows_of(split: Split, rows: range) -> Iterator[Rows]:
    table = split.table.iloc[rows.start : rows.stop]
    names = np.array([*split.class_names, None], dtype=object)[split.labels[rows.start : rows.stop]]
    opened = None if split.images is None else partial(_open_of, split.images, rows.start)
    features_nd = None if split.features_nvd is None else split.features_nvd[rows.start : rows.stop, 0]
    yield Rows(
        file_names=table["file_name"].tolist(),
        opened=opened,
        features_nd=features_nd,
        image_ids=table["image_id"].tolist(),
        labels=names.tolist() if split.n_labelled else None,
    )


def _open_of(images: Images, start: int, row: int, short_side: int) -> tuple[Image.Image, str]:
    return images.open(start + row, short_side), ""


def _left_out(problems: Sequence[Problem]) -> list[Unit]:
    return [Unit("left out", partial(_only, Rows(problems=problems)), 0)] if problems else []


def _block_name(file_names: Sequence[str]) -> str:
    digest = hashlib.sha256("\0".join(file_names).encode()).hexdigest()[:12]
    return f"{file_names[0]} and {len(file_names) - 1} more ({digest})"
