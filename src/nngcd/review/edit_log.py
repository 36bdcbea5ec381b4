"""The edit log on disk: one JSON line per edit, append-only, safe against a crash in the middle of a line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from nngcd.core.digests import digest_of
from nngcd.core.errors import DataError, ResourceError, UserError, warn
from nngcd.core.files import DIGEST
from nngcd.core.locks import hold
from nngcd.core.verified_files import read_content
from nngcd.review.edits import OPS, Edit, patch_from_json, patch_to_json


class ChangedElsewhereError(UserError):
    """Another window or program has added to the log since it was read; read it again before the next edit."""


class EditLog:
    """The edits of a run; the first one creates the file.

    Only complete lines count. An unfinished last line, left by a crash, is ignored with a warning and removed by the
    next edit, so a crash loses at most the edit that was being written.

    Raises:
        DataError: a line other than the last is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.edits: list[Edit] = []
        content = read_content(path) if path.is_file() else b""
        self._n_seen = len(content)
        self._n_whole = self._read(content)

    def append(self, edit: Edit) -> None:
        """Add an edit; when this returns it is on the disk.

        Raises:
            ChangedElsewhereError: the log has grown since it was read; nothing is written.
            ResourceError: it cannot be written; the log stays as it was.
        """
        line = json.dumps(_to_json(edit), ensure_ascii=False, allow_nan=False).encode() + b"\n"
        with self._held():
            if not self.is_current:
                raise ChangedElsewhereError(
                    f"{self.path} was changed elsewhere. Open the run again, then repeat this edit."
                )
            try:
                self._n_whole = self._n_seen = _write_at(self.path, self._n_whole, line)
            except OSError as error:
                with suppress(OSError):
                    os.truncate(self.path, self._n_whole)
                    self._n_seen = self._n_whole
                raise ResourceError(
                    f"R01: cannot write {self.path}: {error.strerror}. The edit was not made."
                ) from error
        self.edits.append(edit)

    @property
    def is_current(self) -> bool:
        """Whether nobody else has added to the log since it was read."""
        return _size(self.path) == self._n_seen

    @contextmanager
    def _held(self) -> Iterator[None]:
        try:
            self.path.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise ResourceError(
                f"R01: cannot create {self.path.parent}: {error.strerror}. The edit was not made."
            ) from error
        with hold(self.path.parent):
            yield

    def _read(self, content: bytes) -> int:
        """Fill `edits`; return the length of the whole lines."""
        *lines, rest = content.split(b"\n")
        for number, line in enumerate(lines, start=1):
            edit = _parsed(line)
            if edit is None:
                raise DataError(
                    f"R03: line {number} of {self.path} is damaged. Restore the file from a backup, or delete that "
                    f"line and all after it."
                )
            self.edits.append(edit)
        if not rest:
            return len(content)
        if (edit := _parsed(rest)) is not None:  # whole; only the end of the line is missing
            self.edits.append(edit)
            return len(content)
        text = f"the last line of {self.path} is incomplete (a crash?) and was ignored; earlier edits are kept."
        warn(text)
        return len(content) - len(rest)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _write_at(path: Path, position: int, line: bytes) -> int:
    """Write a line at the end of the whole lines, cutting off what follows; return the new length."""
    with path.open("r+b" if path.is_file() else "w+b") as file:
        file.truncate(position)
        if position:
            file.seek(position - 1)
            line = line if file.read(1) == b"\n" else b"\n" + line
        file.seek(position)
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
    return position + len(line)


def _to_json(edit: Edit) -> dict[str, Any]:
    before = patch_to_json(edit.before)
    values = {"t": edit.t, "user": edit.user, "op": edit.op, "args": dict(edit.args), "before": before}
    return {**values, DIGEST: _digest(values)}


def _digest(values: dict[str, Any]) -> str:
    return digest_of(json.dumps(values, sort_keys=True).encode())


def _parsed(line: bytes) -> Edit | None:
    """Return the edit of a line; None where it is damaged or is not what was written."""
    try:
        values = json.loads(line)
        if values.pop(DIGEST) != _digest(values) or values["op"] not in OPS or not isinstance(values["args"], dict):
            return None
        before = patch_from_json(values["before"])
        return Edit(str(values["t"]), str(values["user"]), values["op"], values["args"], before)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
