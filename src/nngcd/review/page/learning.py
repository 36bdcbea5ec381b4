"""Learning from the review: `nngcd fit --from-review` as a child process of the page, and what it says of its progress.

It ends with the page, so that nothing goes on unseen. A run that was stopped is resumed by the next start, unless the
review was changed since.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import RLock, Thread
from typing import IO, Any

from nngcd.core.atomic import writing
from nngcd.core.errors import ResourceError, UserError
from nngcd.core.files import write_json
from nngcd.core.run_folder import RunFolder

PROGRAM = (sys.executable, "-m", "nngcd")
AS_JSON = {"NNGCD_PROGRESS": "json"}
SECONDS_TO_STOP = 60
"""A run that is told to stop finishes its step and writes its state."""
NICENESS = 10
"""The page goes first: a person waits for it."""
FILE = "learning.json"


class AlreadyLearningError(UserError):
    """A new run is being trained already."""


class Learning:
    """The one new run that is trained from a review at a time."""

    def __init__(self, run: RunFolder, program: Sequence[str] = PROGRAM) -> None:
        self._run, self._program, self._lock = run, program, RLock()
        self._file = run.edits.parent / FILE
        self._child: subprocess.Popen[str] | None = None
        self._reader: Thread | None = None
        self._is_stopping, self._line, self._share, self._error = False, "", 0.0, ""
        self._out, self._version = _read(self._file)

    @property
    def out(self) -> RunFolder | None:
        """The run that is or was made; None before the first start."""
        return None if self._out is None else RunFolder(self._out)

    def start(self, version: int) -> None:
        """Begin a new run from this version of the review, or go on with one that was stopped.

        Raises:
            AlreadyLearningError: one is being trained.
            ResourceError: no process can be started.
        """
        with self._lock:
            if self._child is not None:
                raise AlreadyLearningError("A new run is being trained already. Wait until it ends, or stop it.")
            if self._can_resume(version) and self._out is not None:
                arguments = ["--resume", str(self._out)]
            else:
                self._out, self._version = _free_name(self._run.path), version
                arguments = ["--from-review", str(self._run.path), "--out", str(self._out)]
            with suppress(ResourceError):  # only a page that is opened later would miss it
                write_json(self._file, {"run": str(self._out), "version": version})
            self._begin([*self._program, "fit", *arguments])

    def stop(self) -> None:
        """End the training and wait for it; what it has written stays and can be resumed."""
        with self._lock:
            child, reader, self._is_stopping = self._child, self._reader, True
        if child is None or reader is None:
            return
        child.terminate()
        reader.join(SECONDS_TO_STOP)
        if reader.is_alive():
            child.kill()
            reader.join()

    def facts(self, version: int) -> dict[str, Any]:
        """Return the state of the training at a version of the review."""
        with self._lock:
            is_done = self._child is None and self.out is not None and self.out.is_complete
            state = "running" if self._child else "failed" if self._error else "done" if is_done else "idle"
            return {
                "state": state,
                "line": self._error if state == "failed" else self._line,
                "share": 1.0 if is_done else round(self._share, 4),
                "run": None if self._out is None else str(self._out),
                "can_resume": state != "running" and self._can_resume(version),
            }

    def _can_resume(self, version: int) -> bool:
        out = self.out
        return out is not None and version == self._version and out.config.is_file() and not out.is_complete

    def _begin(self, command: list[str]) -> None:
        self._is_stopping, self._line, self._share, self._error = False, "Starting", 0.0, ""
        with writing(self._run.path):
            # A session of its own: Ctrl-C in the terminal ends the page, which then ends the training.
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                encoding="utf-8", errors="replace", env=os.environ | AS_JSON, start_new_session=True,
            )  # fmt: skip
        if hasattr(os, "setpriority"):
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self._child.pid, NICENESS)
        self._reader = Thread(target=self._listen, args=(self._child,), daemon=True)
        self._reader.start()

    def _listen(self, child: subprocess.Popen[str]) -> None:
        said = _follow(child.stdout, self._take) if child.stdout else []
        code = child.wait()
        with self._lock:
            self._child = None
            if self._is_stopping:
                self._line = "Stopped"
            elif code or self.out is None or not self.out.is_complete:
                self._error = _reason(said) or f"The training ended with code {code}."

    def _take(self, told: dict[str, Any]) -> None:
        with self._lock:
            if "said" in told:
                self._line = str(told["said"])
                return
            stage, done, total = str(told["stage"]), int(told["done"]), int(told["total"])
            self._share = min(1.0, done / max(1, total))
            self._line = f"{stage} {done:,} of {total:,}  {told.get('note', '')}".rstrip()


def _follow(lines: IO[str], take: Any) -> list[str]:  # noqa: ANN401 (a callback)
    """Pass on the lines of progress; return the others, of which the last say why a run ended."""
    others: list[str] = []
    for line in lines:
        try:
            told = json.loads(line)
            take(told)
        except (ValueError, KeyError, TypeError, AttributeError):
            others = [*others[-50:], line.strip()]
    return others


def _reason(said: Sequence[str]) -> str:
    errors = [line.removeprefix("error:").strip() for line in said if line.startswith("error:")]
    return errors[-1] if errors else next((line for line in reversed(said) if line), "")


def _free_name(run: Path) -> Path:
    """Return the first of NAME-2, NAME-3, ... that does not exist next to a run."""
    run = run.resolve()
    name, _, ending = run.name.rpartition("-")
    is_numbered = bool(name) and ending.isdecimal() and len(ending) < 4
    stem, number = (name, int(ending) + 1) if is_numbered else (run.name, 2)
    while (path := run.with_name(f"{stem}-{number}")).exists():
        number += 1
    return path


def _read(file: Path) -> tuple[Path | None, int]:
    """Return the run that was begun last, and from which version; none where that is not known."""
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        out, version = Path(values["run"]), int(values["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return None, -1
    return (out, version) if out.is_dir() else (None, -1)
