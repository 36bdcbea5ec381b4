"""Folders of images: made under a hidden name, and given their own when whole; file names that every system accepts."""

from __future__ import annotations

import hashlib
import re
import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from nngcd.core.atomic import filling, temporary_beside, writing
from nngcd.core.errors import DataError
from nngcd.export.originals import Files, Originals
from nngcd.export.source import ExportSource

NAMES_FILE = "names.csv"
NAMES_COLUMNS = ["kind", "name", "exported"]
_FORBIDDEN = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')
_RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{i}" for port in ("com", "lpt") for i in "123456789")}
"""Devices of Windows: no file may be called so, whatever its ending."""
MAX_BYTES = 120
"""Longest name; file systems take 255 bytes, whole paths on Windows 260 characters."""
N_DIGITS = 5
"""Digits of the hash that is added to a name that would not be its own."""


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a hidden folder next to `path`; it becomes `path` if the block succeeds, otherwise it is removed."""
    with hidden_folder(path) as temporary:
        yield temporary
        # Unlike replace(), rename() onto an existing folder fails unless that is empty: nothing is overwritten.
        with writing(path):
            temporary.rename(path)


@contextmanager
def hidden_folder(path: Path) -> Iterator[Path]:
    """Yield a hidden folder next to `path`, which is gone when the block ends."""
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


def safe_name(name: str) -> str:
    """Return a name that can be a file or folder anywhere; most names come back as they are."""
    changed = _FORBIDDEN.sub("_", unicodedata.normalize("NFC", name)).strip().rstrip(". ")
    if not changed or changed.startswith((".", "~")):
        changed = f"_{changed.lstrip('.~')}"
    if changed.partition(".")[0].rstrip().casefold() in _RESERVED:
        changed = f"_{changed}"
    if len(changed.encode()) <= MAX_BYTES:
        return changed
    stem, ending = _parts(changed)
    room = MAX_BYTES - len(ending.encode()) - 1 - N_DIGITS
    return stem.encode()[:room].decode(errors="ignore").rstrip(". ") + _mark(name, N_DIGITS) + ending


def safe_names(wanted: Mapping[str, str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Return a safe name for each thing, no two alike: a short hash tells apart what only differs in case or form.

    Args:
        wanted: the name that each thing should have; the keys tell things of one name apart.
        taken: names that are used for something else.
    """
    used = {_key(name) for name in taken}
    given: dict[str, str] = {}
    # Names that need no change keep themselves, whatever comes before them; otherwise the first one keeps its name.
    for thing in sorted(wanted, key=lambda thing: safe_name(wanted[thing]) != wanted[thing]):
        name, n_digits = safe_name(wanted[thing]), N_DIGITS
        while _key(name) in used:
            stem, ending = _parts(safe_name(wanted[thing]))
            name, n_digits = stem + _mark(thing, n_digits) + ending, n_digits + 1
        used.add(_key(name))
        given[thing] = name
    return given


def _parts(name: str) -> tuple[str, str]:
    """Return a name without its ending, and the ending; what is long does not count as one."""
    stem, dot, ending = name.rpartition(".")
    return (stem, dot + ending) if stem and len(ending) <= 5 else (name, "")


def _mark(text: str, n_digits: int) -> str:
    return "-" + hashlib.sha256(text.encode()).hexdigest()[:n_digits]


def _key(name: str) -> str:
    """Return what Windows and macOS compare: neither case nor the form of accents counts."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKD", name).casefold())
