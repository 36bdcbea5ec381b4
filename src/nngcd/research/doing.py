"""Doing a grid of runs: the data are opened once, each run is done once, and a table shows those that finished."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nngcd.core import config
from nngcd.core.components import component_names
from nngcd.core.errors import ConfigError, ResourceError, TrainingError, UserError, did_you_mean
from nngcd.core.files import write_table
from nngcd.core.progress import Progress
from nngcd.counting.choosing import given_k
from nngcd.data.reading_settings import ReadingSettings
from nngcd.pipeline import Opened, carry_out, open_data
from nngcd.research.benchmark_report import run_table
from nngcd.research.comparison import ComparisonRow, Summary, check_comparable, row_of
from nngcd.research.grid import Cell, read_summary
from nngcd.research.table_report import TableReport
from nngcd.runs.run_settings import completed
from nngcd.settings import resolve

OpenedData = dict[ReadingSettings, Opened]
Shown = Callable[[str], AbstractContextManager[Progress]]
"""Returns the progress display of a run as a context; each of its lines begins with the given text."""
OF_THE_USER = ("folder", "manifest", "arrays")
"""Loaders of the user's own data, which have no truth; the others are benchmarks."""
DECIDED = {"data": "DATASET and --root", "dataset": "DATASET and --root", "method": "--method", "seed": "--seeds"}
"""Settings that `--set` may not change in a grid, and the option for each."""


@dataclass(frozen=True, slots=True)
class Done:
    """The results of a grid of runs."""

    runs: list[tuple[Cell, Summary]]
    failures: list[tuple[Cell, UserError]]

    @property
    def summaries(self) -> list[Summary]:
        """The summaries of all runs that finished."""
        return [summary for _, summary in self.runs]

    def rows(self, *, on_same_data: bool = True) -> list[ComparisonRow]:
        """Return one row per variant, in their order.

        Raises:
            DataError: runs that should be on the same images and labels are not.
        """
        if on_same_data:
            check_comparable(self.summaries)
        names = dict.fromkeys(str(cell.variant) for cell, _ in self.runs)
        return [row_of(name, [s for cell, s in self.runs if str(cell.variant) == name]) for name in names]

    def write(self, report: TableReport, out: Path, name: str) -> list[Path]:
        """Write the table as Markdown and LaTeX, and every run as a line of a CSV; return the files."""
        files = [*report.write(out, name), out / f"{name}.csv"]
        write_table(files[-1], run_table(self.runs))
        return files


@dataclass(frozen=True, slots=True)
class Doing:
    """Options for doing the runs of a grid."""

    cache: Path | None = None
    """Where views are kept for later runs."""
    shown: Shown = lambda prefix: nullcontext(Progress())
    go_on: str = "the same call"
    """Command that continues the grid after an interrupt."""


def shared_values(dataset: str, root: Path | None, asked: Mapping[str, Any], assigned: config.Values) -> config.Values:
    """Return the settings that all runs of a grid on a benchmark share.

    Raises:
        ConfigError: no benchmark of that name, so there would be no truth to score against; or `assigned` (`--set`)
            says what the grid decides.
    """
    for name, value in assigned.items():
        if name in DECIDED:
            raise ConfigError(f"--set {name}", value, f"is set by {DECIDED[name]}; leave it out")
    names = [name for name in component_names("nngcd.datasets", "load") if name not in OF_THE_USER]
    if dataset not in names:
        hint = did_you_mean(dataset, names)
        raise ConfigError("DATASET", dataset, f"unknown benchmark.{hint} Choose from: {', '.join(names)}")
    if dataset == "digits" and root:
        raise ConfigError("--root", str(root), "the digits come with nngcd; leave it out")
    given = {name: value for name, value in asked.items() if value is not None}
    values = completed(config.merge(given, {"data": str(root or dataset), "dataset": dataset}, assigned))
    # Without a root, DATASET is a benchmark even if a folder has its name.
    return values if root else values | {"data": dataset}


def do_grid(cells: Sequence[Cell], doing: Doing, *, opened: OpenedData | None = None) -> Done:
    """Do every run of the grid that is not done yet; one that fails does not stop the others.

    Without `opened`, the data are opened first.

    Raises:
        UserError: the data, a number of categories or a run folder cannot be used; or no run finished.
    """
    done = Done([], [])
    opened = open_all(cells, doing) if opened is None else opened
    for number, cell in enumerate(cells, start=1):
        try:
            if any(cell.start == failed.path for failed, _ in done.failures):
                raise TrainingError(f"the run it starts from has failed ({cell.start})")
            with doing.shown(f"[{number}/{len(cells)}] ") as progress:
                _do(cell, opened.get(cell.settings.reading), doing, progress)
        # A setting that one network or method refuses may suit the others of the grid.
        except (TrainingError, ResourceError, ConfigError) as error:
            done.failures.append((cell, error))
        else:
            done.runs.extend([] if cell.is_start else [(cell, read_summary(cell))])
    if not done.runs:
        raise done.failures[0][1]
    return done


def open_all(cells: Sequence[Cell], doing: Doing) -> OpenedData:
    """Return the data of all runs that are not done yet."""
    opened: OpenedData = {}
    for cell in cells:
        reading = cell.settings.reading
        if cell.is_complete:
            continue
        if reading not in opened:
            with doing.shown("") as progress:
                opened[reading] = open_data(cell.settings, progress)
        given_k(opened[reading][0], cell.settings.k, cell.settings.k_range)
    return opened


def numbers_of_classes(values: config.Values, doing: Doing) -> tuple[int, int | None]:
    """Return the number of old classes of a data set, and of all its classes if it states that."""
    with doing.shown("") as progress:
        split, _ = open_data(resolve(values), progress)
    return split.n_old, split.n_classes


def start_notes(cells: Sequence[Cell]) -> list[str]:
    """Return a sentence for each method that starts from runs of another one: which, and in what folder."""
    method_of = {cell.path: cell.settings.method for cell in cells}
    found = {
        (cell.settings.method, method_of[cell.start], cell.start.parent) for cell in cells if cell.start is not None
    }
    return [
        f"{method} starts from trained runs of {first}, one per seed, in {folder}; their time is not counted."
        for method, first, folder in sorted(found)
    ]


def _do(cell: Cell, opened: Opened | None, doing: Doing, progress: Progress) -> None:
    what = f"{cell.variant}, seed {cell.settings.seed}{' (to start from)' * cell.is_start}"
    progress.tell(f"{what}: already complete" if cell.is_complete else what)
    if cell.is_complete and cell.begun:
        cell.begun.remove_litter()
    if cell.is_complete or opened is None:
        return
    carry_out(
        cell.settings, begun=cell.begun, out=cell.path, opened=opened, go_on=doing.go_on, cache=doing.cache,
        progress=progress,
    )  # fmt: skip
