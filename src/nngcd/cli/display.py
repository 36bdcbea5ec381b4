"""Output for people: progress bars on a terminal, plain lines elsewhere, tables, and JSON when asked for.

Names of files and categories are strangers' text: printed as it is, never as markup, with control characters escaped,
which could otherwise move the cursor, change a title or hide a line.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.table import Table
from rich.text import Text

from nngcd.core.atomic import cannot_write
from nngcd.core.errors import NngcdWarning
from nngcd.core.progress import Counted, Progress


class Output(Console):
    """Standard output or errors, which can be closed (`| head`) or full (`> FILE`) while a command runs.

    A command whose output is closed ends as with Ctrl-C. Errors that nobody can see stop nothing.
    """

    def on_broken_pipe(self) -> None:
        """Leave it to `_check_buffer`; rich itself would end the program silently."""
        raise

    def _check_buffer(self) -> None:
        try:
            super()._check_buffer()
        except OSError as error:
            self.quiet = True
            # What Python still holds for this output would fail again when the program ends.
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())
            if self.stderr:
                return
            if isinstance(error, BrokenPipeError):
                raise KeyboardInterrupt from None
            raise cannot_write("standard output", error) from error


OUT = Output(soft_wrap=True)
ERRORS = Output(stderr=True, soft_wrap=True)
SECONDS_BETWEEN_LINES = 10
SECONDS_BETWEEN_OBJECTS = 0.5
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except tab and line feed, marks that turn the direction of text, and bytes that are no UTF-8."""


def visible(text: str) -> str:
    r"""Return the text with control characters escaped, for example `\x1b`."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class BarProgress(Progress):
    """One live bar per stage with the time left; for terminals."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self._bar = RichProgress(
            TextColumn("{task.description:<24}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.fields[note]}", markup=False), console=OUT,
        )  # fmt: skip

    def __enter__(self) -> BarProgress:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def start(self, stage: str, total: int) -> None:
        """Show a new bar."""
        self._task = self._bar.add_task(visible(self.prefix + stage), total=total, note="")

    def advance(self, n: int = 1, note: str = "") -> None:
        """Move the bar."""
        self._bar.update(self._task, advance=n, note=visible(note))

    def finish(self, note: str = "") -> None:
        """Fill the bar."""
        total = self._bar.tasks[self._task].total
        self._bar.update(self._task, completed=total, note=visible(note))

    def tell(self, text: str) -> None:
        """Print a line above the bars."""
        say(self.prefix + text)


class LineProgress(Progress):
    """A line now and then, without control characters; for log files."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix

    def start(self, stage: str, total: int) -> None:
        """Begin counting; the first line comes after some seconds."""
        self.stage, self.total, self.done = stage, total, 0
        self.started = self.last_line = time.monotonic()

    def advance(self, n: int = 1, note: str = "") -> None:
        """Print a line when the last one is some seconds old."""
        self.done += n
        now = time.monotonic()
        if now - self.last_line >= SECONDS_BETWEEN_LINES and self.done < self.total:
            left = (now - self.started) * (self.total - self.done) / max(self.done, 1)
            self._line(f"{self.done}/{self.total}  about {left:.0f} s left  {note}")
            self.last_line = now

    def finish(self, note: str = "") -> None:
        """Print how long the stage took."""
        self._line(f"{self.total}/{self.total}  done in {time.monotonic() - self.started:.0f} s  {note}")

    def tell(self, text: str) -> None:
        """Print a line."""
        say(self.prefix + text)

    def _line(self, text: str) -> None:
        say(f"{self.prefix + self.stage:<24} {text}".rstrip())


class JsonProgress(Progress):
    """A JSON object on each line, for programs that start this one: `NNGCD_PROGRESS=json`."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix

    def start(self, stage: str, total: int) -> None:
        """Tell of the stage."""
        self.stage, self.total, self.done, self.last_line = self.prefix + stage, total, 0, time.monotonic()
        self._line("")

    def advance(self, n: int = 1, note: str = "") -> None:
        """Report how much is done, at most twice a second."""
        self.done += n
        if (now := time.monotonic()) - self.last_line >= SECONDS_BETWEEN_OBJECTS:
            self.last_line = now
            self._line(note)

    def finish(self, note: str = "") -> None:
        """Tell of the result."""
        self.done = self.total
        self._line(note)

    def tell(self, text: str) -> None:
        """Pass on a sentence."""
        _say_object({"said": self.prefix + text})

    def _line(self, note: str) -> None:
        _say_object({"stage": self.stage, "done": self.done, "total": self.total, "note": note})


def _say_object(values: dict[str, object]) -> None:
    OUT.out(json.dumps(values), highlight=False)


def progress_display(*, is_quiet: bool, prefix: str = "") -> Progress:
    """Return the display that suits where the output goes."""
    if is_quiet:
        return Progress()
    if os.environ.get("NNGCD_PROGRESS") == "json":
        return JsonProgress(prefix)
    return BarProgress(prefix) if OUT.is_terminal else LineProgress(prefix)


def reading(progress: Progress) -> Callable[[int, int], None]:
    """Return a callback that shows how many files have been read."""
    stage = Counted(progress, "reading")

    def show(n_read: int, n_files: int) -> None:
        stage(n_read, n_files)
        if n_read == n_files:
            stage.finish()

    return show


def say(text: str = "", *, is_quiet: bool = False) -> None:
    """Print a line of plain text, unless nothing is to be shown."""
    if not is_quiet:
        OUT.print(Text(visible(text)))


def say_error(text: str, mark: str = "error:", style: str = "bold red") -> None:
    """Print a line of plain text where errors go, after a coloured mark if there is one."""
    ERRORS.print(Text.assemble((mark, style), " " if mark else "", visible(text)))


def say_json(values: object) -> None:
    """Print values as JSON, for programs."""
    text = json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False)
    # JSON's own way to write any character; these occur inside strings only.
    OUT.out(_UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text), highlight=False)


def say_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; the first column is text, the others are numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for i, column in enumerate(columns):
        table.add_column(Text(visible(column)), justify="right" if i else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    OUT.print(table, highlight=False)


def show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int,
    file: TextIO | None = None, line: str | None = None,
) -> None:  # fmt: skip
    """Show our own warnings as a sentence; those of libraries are for developers and stay silent here."""
    if issubclass(category, NngcdWarning):
        say_error(str(message), "note:", "yellow")


@contextmanager
def each_note_once() -> Iterator[None]:
    """Show a warning only the first time; Python's own `once` forgets whenever a library changes its filters."""
    show, shown = warnings.showwarning, set[str]()

    def show_new(
        message: Warning | str, category: type[Warning], filename: str, lineno: int,
        file: TextIO | None = None, line: str | None = None,
    ) -> None:  # fmt: skip
        if str(message) not in shown:
            shown.add(str(message))
            show(message, category, filename, lineno, file, line)

    warnings.showwarning = show_new
    try:
        yield
    finally:
        warnings.showwarning = show


class PlainFormatter(logging.Formatter):
    """Formats the library's log for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return visible(super().format(record))
