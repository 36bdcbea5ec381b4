"""The files and labels that `nngcd check` looks at.

Everything is worked out from what the readers of folders and tables found, so that `nngcd check` cannot say one thing
and `nngcd fit` do another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from nngcd.data.image_files import FileCheck
from nngcd.data.listed import Listed
from nngcd.data.reading_settings import ReadingSettings
from nngcd.data.sightings import Facts
from nngcd.data.split import Problem


@dataclass(frozen=True, slots=True)
class Seen:
    """The facts about each image: (n) files with the category of each, None where it has none."""

    listed: Listed
    reading: ReadingSettings
    checks: Sequence[FileCheck]
    names: Sequence[str | None]

    @property
    def readable(self) -> Iterator[tuple[str, str | None, str, Facts]]:
        """The file, category, content and facts of every readable image."""
        for file_name, name, check in zip(self.listed.file_names, self.names, self.checks, strict=True):
            if check.facts is not None:
                yield file_name, name, check.content_hash, check.facts

    @property
    def sizes(self) -> Counter[str]:
        """The number of readable images of each category."""
        return Counter(name for _, name, _, _ in self.readable if name is not None)


def those(seen: Seen, is_one: Callable[[Facts], bool], code: str, reason: str = "") -> tuple[Problem, ...]:
    """Return the readable images of a kind, by default with their size and mode as the reason."""
    return tuple(
        Problem(file_name, code, reason or f"{facts.width} x {facts.height} pixels, {facts.format} {facts.mode}")
        for file_name, _, _, facts in seen.readable if is_one(facts)
    )  # fmt: skip
