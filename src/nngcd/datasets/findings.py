"""What can be odd about a user's images: one finding says what, so what, and what to do.

Everything is worked out from what the readers of folders and tables found, so that `nngcd check` cannot say one thing
and `nngcd fit` do another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from nngcd.datasets.image_files import FileCheck
from nngcd.datasets.listed import Listed
from nngcd.datasets.reading import Config
from nngcd.datasets.sightings import Facts
from nngcd.datasets.split import Problem

Severity = Literal["stop", "warning", "note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing to know about the data.

    Args:
        code: what to look up in docs/bad-input.md.
        severity: whether it stops `nngcd fit`, should be looked at, or is only counted.
        what: what was found, and where.
        effect: what `nngcd fit` does about it.
        flags: what to add to the command to change that.
        files: the files concerned.
        share: of the files or rows that is bad, where a larger one than allowed stops a fit.
    """

    code: str
    severity: Severity
    what: str
    effect: str
    flags: str = ""
    files: tuple[Problem, ...] = ()
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What was found, image by image: (n) files with the category of each, None where it has none."""

    listed: Listed
    reading: Config
    checks: Sequence[FileCheck]
    names: Sequence[str | None]

    @property
    def readable(self) -> Iterator[tuple[str, str | None, str, Facts]]:
        """File, category, content and facts of every image that can be read."""
        for file_name, name, check in zip(self.listed.file_names, self.names, self.checks, strict=True):
            if check.facts is not None:
                yield file_name, name, check.content_hash, check.facts

    @property
    def sizes(self) -> Counter[str]:
        """The number of readable images of each category."""
        return Counter(name for _, name, _, _ in self.readable if name is not None)


def quoted(names: Sequence[str], most: int = 4) -> str:
    """Return the first few names in quotes."""
    shown = ", ".join(f"'{name}'" for name in names[:most])
    return f"{shown}, ..." if len(names) > most else shown


def those(seen: Seen, is_one: Callable[[Facts], bool], code: str, reason: str = "") -> tuple[Problem, ...]:
    """Return the readable images of a kind, by default with their size and mode as the reason."""
    return tuple(
        Problem(file_name, code, reason or f"{facts.width} x {facts.height} pixels, {facts.format} {facts.mode}")
        for file_name, _, _, facts in seen.readable if is_one(facts)
    )  # fmt: skip
