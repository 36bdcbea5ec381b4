"""An interrupted export goes on where it stopped: a hidden note says which of its files were not there before.

Every file or folder of an export is whole or absent. So whatever was absent when the export began and is there now is
finished, and only the rest is left to write. The note is removed when all of it is there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from pydantic import BaseModel, ValidationError

from nngcd.core.atomic import writing
from nngcd.core.files import write_json
from nngcd.export.source import ExportSource

FILE = ".unfinished-export.json"
MOST_BYTES = 2**16


class _Note(BaseModel):
    of: str
    absent: list[str]


def content_key(source: ExportSource) -> str:
    """Return a hash of all that an export shows: run, results with the edits of its review, options, what is left out.

    It is asked for after the formats were checked, which look for the images.
    """
    # The place of the images changes nothing: only those that the run saw are taken.
    options = {name: value for name, value in asdict(source.options).items() if name != "root"}
    # Not as CSV, which Python 3.10 cannot write where a name holds a zero character.
    tables = [table.to_json(double_precision=15) for table in (source.table, source.categories)]
    facts = [str(source.run.path.resolve()), options, *tables, source.found_missing()]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def finished_names(out: Path, key: str) -> frozenset[str]:
    """Return what an export of the same content finished here before it was interrupted; nothing if there was none."""
    note = _read(out)
    return frozenset(name for name in note.absent if (out / name).exists()) if note and note.of == key else frozenset()


@contextmanager
def noted(out: Path, key: str, names: Iterable[str]) -> Iterator[None]:
    """Keep the note while the block writes these files and folders, and after it if it fails with some of them done."""
    is_new, before = not out.exists(), _read(out)
    earlier = set(before.absent) if before and before.of == key else set()
    absent = earlier | {name for name in names if not (out / name).exists()}
    write_json(out / FILE, _Note(of=key, absent=sorted(absent)).model_dump())
    try:
        yield
    except BaseException:
        if not finished_names(out, key):
            _remove(out, is_new=is_new)
        raise
    if all((out / name).exists() for name in absent):
        _remove(out, is_new=False)


def _remove(out: Path, *, is_new: bool) -> None:
    with writing(out / FILE):
        (out / FILE).unlink(missing_ok=True)
    with suppress(OSError):  # somebody else may have put something there
        if is_new:
            out.rmdir()


def _read(out: Path) -> _Note | None:
    """Return the note; a damaged one is none, and what is there is then left alone as if it were the user's."""
    try:
        content = (out / FILE).read_bytes()[:MOST_BYTES]
        return _Note.model_validate_json(content)
    except (OSError, ValidationError):
        return None
