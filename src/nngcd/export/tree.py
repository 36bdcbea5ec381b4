"""Folders of images: made under a hidden name, and given their own name only when they are whole."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from nngcd.core.atomic import filling, temporary_beside, writing
from nngcd.core.errors import DataError
from nngcd.export.names import safe_names
from nngcd.export.originals import Files, Originals
from nngcd.export.source import ExportSource

NAMES_FILE = "names.csv"
NAMES_COLUMNS = ["kind", "name", "exported"]


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a hidden folder beside `path`; it becomes `path` when the block ends well, otherwise it is removed.

    Raises:
        ResourceError: the disk is full or not writable.
    """
    with hidden_folder(path) as temporary:
        yield temporary
        # Unlike replace(), rename() onto an existing folder fails unless that is empty: nothing is overwritten.
        with writing(path):
            temporary.rename(path)


@contextmanager
def hidden_folder(path: Path) -> Iterator[Path]:
    """Yield a hidden folder beside `path`, which is gone when the block ends.

    Raises:
        ResourceError: the disk is full or not writable.
    """
    with writing(path):
        temporary = temporary_beside(path)
        temporary.mkdir(parents=True)
    try:
        with filling(path, temporary):
            yield temporary
    except OSError as error:
        # Nothing else is read here than the images.
        raise DataError(f"D04: cannot read {error.filename or 'an image'}: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Placing:
    """Where each image goes: `paths` relative to the exported folder, and which names had to be changed."""

    paths: list[str]
    changed: pd.DataFrame
    """kind (category or file), name, exported."""


def plan(
    file_names: Sequence[str], folders: Sequence[str | None], originals: Originals, *, rest: str, taken: Sequence[str]
) -> Placing:
    """Return a path for each image in the folder of its category, with names that every file system accepts.

    Args:
        file_names: the images.
        folders: the category of each, None for one without.
        originals: knows the last part of each image's name.
        rest: the folder of images without a category; no category gets this name.
        taken: further names that no category may have.
    """
    own = safe_names({name: name for name in sorted({name for name in folders if name is not None})}, [rest, *taken])
    rows = [("category", name, safe) for name, safe in own.items() if name != safe]
    members: dict[str | None, dict[str, str]] = {}
    for name, folder in zip(file_names, folders, strict=True):
        members.setdefault(folder, {})[name] = originals.exported_name(name)
    paths: dict[str, str] = {}
    for folder, wanted in members.items():
        for name, safe in safe_names(wanted).items():
            paths[name] = f"{rest if folder is None else own[folder]}/{safe}"
            if safe != wanted[name]:
                rows.append(("file", name, paths[name]))
    return Placing([paths[name] for name in file_names], pd.DataFrame(sorted(rows), columns=NAMES_COLUMNS))


def check_links(source: ExportSource, path: Path) -> None:
    """Look for the images, and try one link of the kind that is asked for where `path` is going to be.

    Raises:
        DataError: images are not there.
        ResourceError: E01, such links cannot be made here; or nothing can be written.
    """
    file_names = source.pictured["file_name"].tolist()
    if isinstance(source.originals, Files):
        with hidden_folder(path) as folder:
            source.originals.check_links(file_names, folder, source.options.link)


def place_all(source: ExportSource, placing: Placing, folder: Path) -> None:
    """Link or copy every image of `source.pictured` to its place, with progress."""
    file_names, originals = source.pictured["file_name"].tolist(), source.originals
    folder.mkdir(parents=True, exist_ok=True)
    source.progress.start("images", len(file_names))
    for name, path in zip(file_names, placing.paths, strict=True):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        originals.place(name, target, source.options.link)
        source.progress.advance()
    source.progress.finish()
