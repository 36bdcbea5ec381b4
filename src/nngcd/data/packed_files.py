"""Which files hold packed images: tars, Parquet or Arrow files in a folder, of a pattern, or one alone."""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path

from nngcd.core.errors import DataError, NoSuchDataError
from nngcd.core.places import Place, is_remote
from nngcd.data.file_tree import is_hidden
from nngcd.data.image_files import EXTENSIONS

TAR_ENDINGS = (".tar", ".tar.gz", ".tgz")
ENDINGS = {"tars": TAR_ENDINGS, "parquet": (".parquet",), "huggingface": (".arrow",)}
"""Endings of the files of each packed kind of data."""


def packed_kind(data: str) -> str | None:
    """Return the kind of packed data that something holds; None for a folder of images, a table of names or the rest.

    Raises:
        DataError: a remote place is not there, or holds nothing of a kind that is read remotely.
    """
    if not is_remote(data) and not _is_pattern(data):
        return _local_kind(Path(data))
    if _is_pattern(data):
        names = _matching(data)[1]
    else:
        place = Place.of(data)
        if not (place.is_file() or place.is_folder()):
            raise NoSuchDataError(f"D01: '{data}' not found; expected a folder or file of {_all_endings()}.")
        names = [place.name] if place.is_file() else place.names()
    found = [kind for kind, endings in ENDINGS.items() if any(name.endswith(endings) for name in names)]
    if not found:
        raise DataError(
            f"D02: '{data}' holds no {_all_endings()} files (found {len(names)} files). Single image files are "
            f"read from this machine only; pack them, or list them in a Parquet table."
        )
    return found[0]


def _all_endings() -> str:
    return ", ".join(ending for endings in ENDINGS.values() for ending in endings)


def files_of(data: str, kind: str) -> list[Place]:
    """Return the files of a kind, in the order of their names."""
    if _is_pattern(data):
        place, names = _matching(data)
    else:
        place = Place.of(data)
        if place.is_file():
            return [place]
        names = place.names()
    names = [name for name in names if name.endswith(ENDINGS[kind]) and not name.startswith("_")]
    if not names:
        raise DataError(f"D02: '{data}' holds no {' or '.join(ENDINGS[kind])} files.")
    return [place.below(name) for name in names]


def _is_pattern(data: str) -> bool:
    """Whether this names files by `*` or `[12]`; a bracket in another name is part of it."""
    name = data.rpartition("/")[2]
    is_written_so = "*" in name or ("[" in name and name.endswith(tuple(chain.from_iterable(ENDINGS.values()))))
    return is_written_so and (is_remote(data) or not Path(data).exists())


def _matching(data: str) -> tuple[Place, list[str]]:
    """Return a folder, and the files in it that a pattern names."""
    folder, _, pattern = data.rpartition("/")
    place = Place.of(folder or ".")
    return place, place.names(pattern)


def _local_kind(path: Path) -> str | None:
    if path.is_file():
        return next((kind for kind, ends in ENDINGS.items() if path.name.endswith(ends) and _is_packed(path)), None)
    if not path.is_dir():
        return None
    if (path / "dataset_dict.json").is_file():
        splits = sorted(one.name for one in path.iterdir() if (one / "state.json").is_file())
        raise DataError(f"D02: '{path}' holds several splits ({', '.join(splits)}). Give one: {path}/{splits[0]}")
    found = set[str]()
    with os.scandir(path) as entries:
        for entry in entries:
            if is_hidden(entry.name) or entry.name.startswith("_"):
                continue
            # A folder of images may also hold tables; packed data have neither images nor folders beside them.
            if entry.is_dir() or Path(entry.name).suffix.lower() in EXTENSIONS:
                return None
            found |= {kind for kind, endings in ENDINGS.items() if entry.name.endswith(endings)}
    return next((kind for kind in ENDINGS if kind in found), None)


def _is_packed(path: Path) -> bool:
    """Whether one file holds images or features; a Parquet table may also list files, which is a manifest."""
    if path.suffix != ".parquet":
        return True
    import pyarrow as pa
    import pyarrow.parquet as pq

    from nngcd.data.arrow_columns import holds_content

    try:
        return holds_content(pq.read_schema(path))
    except (OSError, pa.ArrowException):  # reading the table says what is wrong
        return False
