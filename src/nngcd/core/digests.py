"""Digests of what a run writes: one list of them in its folder, which everything that is read is compared with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nngcd.core.errors import DataError
from nngcd.core.files import write_json

FILE = "digests.json"
MOST_BYTES = 2**20
OF_A_PLACE = {"data", "weights", "init_from", "device", "precision", "engine", "workers", "reading.image_root",
              "reading.decisions"}  # fmt: skip
"""Settings that say where things are and what computes; a person may change these in a run's config.yaml."""


def digest_of(content: bytes) -> str:
    """Return the sha256 of some bytes."""
    return hashlib.sha256(content).hexdigest()


def settings_digest(flat: Mapping[str, Any]) -> str:
    """Return the sha256 of settings by full name, less those that name a place."""
    kept = {name: value for name, value in flat.items() if name not in OF_A_PLACE}
    return digest_of(json.dumps(kept, sort_keys=True, default=str).encode())


def record(folder: Path, names: Iterable[str] = (), known: Mapping[str, str] | None = None) -> None:
    """Record the digests of files that exist and those `known`, in addition to those recorded before."""
    found = {name: digest_of((folder / name).read_bytes()) for name in names if (folder / name).is_file()}
    write_json(folder / FILE, dict(sorted((read(folder) | found | dict(known or {})).items())))


def forget(folder: Path, *, but: Iterable[str] = ()) -> None:
    """Drop the digests of files that will be written again: a crash in between must not make them look damaged."""
    before = read(folder)
    kept = {name: digest for name, digest in before.items() if name in but}
    if kept != before:
        write_json(folder / FILE, kept)


def read(folder: Path) -> dict[str, str]:
    """Return the digests of a folder's files by name; nothing where none are written yet."""
    path = folder / FILE
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError("too large")
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict) or not all(isinstance(digest, str) for digest in found.values()):
            raise ValueError("not a list of digests by name")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        way_out = "Restore it from a backup. Without it, the files of this run cannot be verified"
        raise DataError(f"R03: {path} is damaged ({error}). {way_out}.") from error
    return found


def expected(path: Path) -> str | None:
    """Return the digest that a file was written with; None where none is known."""
    for folder in (path.parent, path.parent.parent):
        if (folder / FILE).is_file():
            return read(folder).get(path.relative_to(folder).as_posix())
    return None
