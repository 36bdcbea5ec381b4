"""What every format is written from: the reviewed results of a run, and where its images lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, get_args

import pandas as pd

from nngcd.core.config import read_yaml
from nngcd.core.errors import ConfigError, DataError
from nngcd.core.files import check_outside
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder
from nngcd.export.originals import Originals, open_originals
from nngcd.review.edits import State
from nngcd.review.reviewed import Reviewed

Link = Literal["hard", "sym", "copy"]
CsvForm = Literal["plain", "excel"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What the user can choose about an export."""

    link: Link = "hard"
    """How image files get into an exported folder: as hard links, symbolic links, or copies."""
    csv: CsvForm = "plain"
    """Plain CSV, or a form that spreadsheets open safely."""
    root: Path | None = None
    """Where the images lie now, if they were moved since the run."""

    def __post_init__(self) -> None:
        if self.link not in get_args(Link):
            raise ConfigError("--link", self.link, f"must be one of {', '.join(get_args(Link))}")
        if self.csv not in get_args(CsvForm):
            raise ConfigError("--csv", self.csv, f"must be one of {', '.join(get_args(CsvForm))}")


@dataclass(frozen=True, slots=True)
class Source:
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

    def originals(self) -> Originals:
        """Return where the images come from.

        Raises:
            DataError: the run was made from features, or its images are no longer there.
        """
        return open_originals(self.run, self.options.root)


@dataclass(frozen=True, slots=True)
class Written:
    """One thing that was written, and what there is to say of it."""

    path: Path
    words: str
    notes: tuple[str, ...] = ()


class Format(Protocol):
    """What a file of this package defines: where it writes, and how."""

    def targets(self) -> tuple[str, ...]:
        """Return the names it writes under the output folder; checked before anything is written."""
        ...

    def write(self, source: Source, out: Path) -> list[Written]:
        """Write the format; each file or folder is whole or absent."""
        ...


def make_source(
    run: RunFolder, reviewed: Reviewed, options: Options, *, only_reviewed: bool, progress: Progress
) -> Source:
    """Return what is to be exported.

    Raises:
        DataError: only reviewed images are asked for, and there are none.
    """
    table = reviewed.table[reviewed.table["reviewed"]] if only_reviewed else reviewed.table
    if not len(table):
        raise DataError(
            f"nothing in {run.path} is reviewed yet, so --only reviewed leaves nothing. Leave it out, or approve first."
        )
    used = reviewed.categories["id"].isin(table["category"])
    return Source(run, table.reset_index(drop=True), reviewed.categories[used], reviewed.state, options, progress)


def check_place(run: RunFolder, out: Path, names: list[str], *, may_overwrite: bool) -> None:
    """Refuse an output folder where something of the user's would be changed; nothing is written yet.

    Raises:
        ConfigError: a name is taken, or the folder lies among the images.
    """
    check_outside(out, str(read_yaml(run.config).get("data", "")))
    if out.exists() and not out.is_dir():
        raise ConfigError("--out", str(out), "is a file; name a folder")
    for target in (out / name for name in names):
        if target.is_dir():
            raise ConfigError(
                "--out", str(out), f"{target} exists, and a folder is never replaced; choose another place"
            )
        if target.exists() and not may_overwrite:
            raise ConfigError("--out", str(out), f"{target} exists already; choose another place or add --overwrite")
