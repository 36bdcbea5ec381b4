"""Source of every format: the reviewed results of a run, and the places of its images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, Protocol, get_args

import pandas as pd

from nngcd.core.errors import ConfigError, DataError
from nngcd.core.files import check_outside
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_config
from nngcd.core.words import quoted
from nngcd.export.originals import Originals, open_originals
from nngcd.results.images import check_inside
from nngcd.review.reviewed import Reviewed
from nngcd.review.state import State

Link = Literal["hard", "sym", "copy"]
CsvForm = Literal["plain", "excel"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """Options of an export."""

    link: Link = "hard"
    """Way to put image files into an exported folder: as hard links, symbolic links, or copies."""
    csv: CsvForm = "plain"
    """Plain CSV, or a form that spreadsheets open safely."""
    root: Path | None = None
    """Where the images are now, if they have moved since the run."""
    skip_missing: bool = False
    """Leave out images that are no longer there, instead of stopping."""

    def __post_init__(self) -> None:
        if self.link not in get_args(Link):
            raise ConfigError("--link", self.link, f"must be one of {', '.join(get_args(Link))}")
        if self.csv not in get_args(CsvForm):
            raise ConfigError("--csv", self.csv, f"must be one of {', '.join(get_args(CsvForm))}")


@dataclass(frozen=True)
class ExportSource:
    """The results to export: `table` has one row per image, `categories` one per category that holds images."""

    run: RunFolder
    table: pd.DataFrame
    categories: pd.DataFrame
    state: State
    options: Options
    progress: Progress

    @property
    def sorted(self) -> pd.DataFrame:
        """The images that can be shown to somebody: readable, not rejected."""
        return self.table[self.table["status"].isin(("known", "new", "unsure"))].reset_index(drop=True)

    @cached_property
    def originals(self) -> Originals:
        """Where the images come from; `DataError` if the run was made from features, or its data are gone."""
        return open_originals(self.run, self.sorted, self.options.root)

    @cached_property
    def without_original(self) -> dict[str, str]:
        """The sorted images whose originals are gone or not what the run saw, by file name, with the reason."""
        return self.originals.problems(self.sorted, self.progress)

    @cached_property
    def pictured(self) -> pd.DataFrame:
        """The sorted images whose originals are there; `DataError` (W02) if some are not and may not be left out."""
        table, lost = self.sorted, self.without_original
        if lost and (len(lost) == len(table) or not self.options.skip_missing):
            ways = "Say where they are with --root FOLDER" if self.originals.has_files else "Restore the data"
            if len(lost) < len(table):
                ways += ", or leave them out with --skip-missing"
            first, reason = next(iter(lost.items()))
            raise DataError(
                f"W02: {len(lost):,} of {len(table):,} originals {self.originals.where} are missing or have changed, "
                f"first '{first}' ({reason}). {ways}"
            )
        return table[~table["file_name"].isin(lost.keys())].reset_index(drop=True)

    def found_missing(self) -> list[str]:
        """Return the images without an original, as far as a format has looked for them."""
        return sorted(vars(self).get("without_original", {}))

    def missing_words(self, place: str) -> tuple[str, ...]:
        """Return which images are not in an exported file or folder because they are gone or others, if any are."""
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.without_original.items():
            by_reason.setdefault(reason, []).append(name)
        return tuple(
            f"Not in {place}: {len(names):,} {reason} (--skip-missing): {quoted(names)}"
            for reason, names in by_reason.items()
        )


@dataclass(frozen=True, slots=True)
class WrittenExport:
    """One thing that was written, and what there is to say of it."""

    path: Path
    words: str
    notes: tuple[str, ...] = ()


class Format(Protocol):
    """Interface of a format's file: where it writes, what it needs, and how it writes."""

    TARGETS: tuple[str, ...]
    """The names it writes under the output folder; checked before anything is written."""

    def check(self, source: ExportSource, out: Path) -> None:
        """Raise `UserError` when something is missing that the format needs; done for all before the first is written.

        A failure later on would leave files that stand in the way of the next try.
        """
        ...

    def write(self, source: ExportSource, out: Path) -> list[WrittenExport]:
        """Write the format; each file or folder is whole or absent."""
        ...


def make_source(
    run: RunFolder, reviewed: Reviewed, options: Options, *, only_reviewed: bool, progress: Progress
) -> ExportSource:
    """Return what is to be exported.

    Raises:
        DataError: only reviewed images are asked for, and there are none; or a name leads out of the data folder.
    """
    check_inside(reviewed.table["file_name"])
    table = reviewed.table[reviewed.table["reviewed"]] if only_reviewed else reviewed.table
    if not len(table):
        raise DataError(
            f"nothing in {run.path} is reviewed yet. Leave out --only reviewed, or approve categories first."
        )
    used = reviewed.categories["id"].isin(table["category"])
    return ExportSource(run, table.reset_index(drop=True), reviewed.categories[used], reviewed.state, options, progress)


def check_folder(run: RunFolder, out: Path) -> None:
    """Refuse an output folder that is among the images, or is not a folder, before anything is written."""
    check_outside(out, str(read_config(run).get("data", "")))
    if out.exists() and not out.is_dir():
        raise ConfigError("--out", str(out), "is a file; give a folder")


def check_names(out: Path, names: Sequence[str], *, may_overwrite: bool) -> None:
    """Refuse names that are taken; nothing is written yet."""
    taken = [target for target in (out / name for name in names) if target.exists()]
    # Folders first: --overwrite would not help, so nobody is told to add it.
    for target in (target for target in taken if target.is_dir()):
        raise ConfigError(
            "--out", str(out), f"folder {target} already exists and is never replaced; choose another folder"
        )
    if taken and not may_overwrite:
        raise ConfigError("--out", str(out), f"{taken[0]} already exists; choose another folder or add --overwrite")
