"""Doing a grid of runs and showing its table: what bench and study share."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from nngcd.bench.benchmark_report import run_table
from nngcd.bench.comparison import Row, Summary, check_comparable, row_of
from nngcd.bench.grid import Cell, Variant, read_summary
from nngcd.bench.tables import Report, as_table
from nngcd.choosing_k import given_k
from nngcd.cli.display import each_note_once, say, say_error
from nngcd.cli.running import InGrid, Opened, fit_run, open_data, values_from
from nngcd.core.components import component_names, find_component
from nngcd.core.config import Values, flatten, parse_assignments
from nngcd.core.errors import ConfigError, ResourceError, TrainingError, UserError, did_you_mean
from nngcd.core.files import write_bytes, write_table
from nngcd.datasets.reading import Config as ReadingConfig
from nngcd.figures.page import FORMATS, Page, plain_style
from nngcd.settings import resolve

OpenedData = dict[ReadingConfig, Opened]
DPI = 150
OF_THE_USER = ("folder", "manifest", "arrays")
"""Forms of data that bring no truth."""
DECIDED = {"data": "DATASET and --root", "dataset": "DATASET and --root", "method": "--method", "seed": "--seeds"}
"""What a grid does not take from `--set`, and what says it instead."""


@dataclass(frozen=True, slots=True)
class Done:
    """What a grid of runs gave."""

    runs: list[tuple[Cell, Summary]]
    failures: list[tuple[Cell, UserError]]

    @property
    def summaries(self) -> list[Summary]:
        """The summaries of all runs that came to their end."""
        return [summary for _, summary in self.runs]

    def rows(self, *, on_same_data: bool = True) -> list[Row]:
        """Return one row per variant, in their order.

        Raises:
            DataError: runs that should be on the same images and labels are not.
        """
        if on_same_data:
            check_comparable(self.summaries)
        names = dict.fromkeys(str(cell.variant) for cell, _ in self.runs)
        return [row_of(name, [s for cell, s in self.runs if str(cell.variant) == name]) for name in names]


@dataclass(frozen=True, slots=True)
class Asked:
    """What `nngcd study` was asked for."""

    study: str
    dataset: str
    values: str | None
    seeds: Sequence[int]
    shared: Values
    """The settings of all runs."""
    out: Path
    cache: Path | None
    is_smoke: bool
    as_json: bool
    is_quiet: bool


def names_of(text: str, option: str) -> list[str]:
    """Return the names of a list with commas, each once.

    Raises:
        ConfigError: there is none.
    """
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ConfigError(option, text, "name at least one, or several with commas")
    return names


def shared_values(dataset: str, root: Path | None, flags: Mapping[str, Any], assignments: list[str]) -> Values:
    """Return the settings that all runs of a grid share.

    Raises:
        ConfigError: no benchmark of that name, so there would be no truth to score against; or `--set` says what the
            grid decides.
    """
    for name, value in parse_assignments(assignments).items():
        if name in DECIDED:
            raise ConfigError(f"--set {name}", value, f"is said by {DECIDED[name]}; leave it out")
    names = [name for name in component_names("nngcd.datasets", "load") if name not in OF_THE_USER]
    if dataset not in names:
        hint = did_you_mean(dataset, names)
        raise ConfigError("DATASET", dataset, f"no such benchmark.{hint} There are: {', '.join(names)}")
    if dataset == "digits" and root:
        raise ConfigError("--root", str(root), "the digits come with nngcd; leave it out")
    values = values_from({**flags, "data": str(root or dataset), "dataset": dataset}, None, assignments)
    # Without a root the name is meant, even where a folder is called so.
    return values if root else values | {"data": dataset}


def check_study(variants: Sequence[Variant], values: Values) -> None:
    """Raise `ConfigError` when the user sets what a study changes, or takes a method that does not have it."""
    changed = {name for variant in variants for name in flatten(variant.values)}
    for name in sorted(changed & set(flatten(values))):
        raise ConfigError(name, flatten(values)[name], "is what this study changes; choose its values with --values")
    method = values.get("method", "nngcd")
    method_config = find_component("nngcd.methods", method, "Method").Config
    fields = {f"loss.{field.name}" for field in dataclasses.fields(method_config)}
    for name in sorted(name for name in changed if name.startswith("loss.") and name not in fields):
        raise ConfigError("--method", method, f"has no {name}, which this study changes; leave out --method")


def numbers_of_classes(values: Values, *, is_quiet: bool) -> tuple[int, int | None]:
    """Return how many old classes the data set of these settings has, and how many in all, if it says so."""
    split, _ = open_data(resolve(values), is_quiet=is_quiet)
    return split.n_old, split.n_classes


def do_grid(cells: Sequence[Cell], *, cache: Path | None, is_quiet: bool, opened: OpenedData | None = None) -> Done:
    """Do every run of the grid that is not done yet; one that fails does not stop the others.

    Data that are not `opened` already are opened first.

    Raises:
        UserError: the data, a number of categories or a run folder cannot be used; or no run came to its end.
    """
    done = Done([], [])
    # What is odd about the data is so in every run.
    with each_note_once():
        opened = open_all(cells, is_quiet=is_quiet) if opened is None else opened
        for number, cell in enumerate(cells, start=1):
            try:
                _check_start(cell, done)
                _do(
                    cell,
                    opened.get(cell.settings.reading),
                    prefix=f"[{number}/{len(cells)}] ",
                    cache=cache,
                    is_quiet=is_quiet,
                )
            # A setting that one network or method cannot have may be right for the others of the grid.
            except (TrainingError, ResourceError, ConfigError) as error:
                done.failures.append((cell, error))
            else:
                done.runs.extend([] if cell.is_start else [(cell, read_summary(cell))])
    if not done.runs:
        raise done.failures[0][1]
    return done


def _check_start(cell: Cell, done: Done) -> None:
    """Raise `TrainingError` when the run that this one starts from has failed."""
    if any(cell.start == failed.path for failed, _ in done.failures):
        raise TrainingError(f"the run it starts from has failed ({cell.start})")


def start_notes(cells: Sequence[Cell]) -> list[str]:
    """Return for each method of the grid that starts from runs of another one, where those are."""
    method_of = {cell.path: cell.settings.method for cell in cells}
    found = {
        (cell.settings.method, method_of[cell.start], cell.start.parent) for cell in cells if cell.start is not None
    }
    return [
        f"{method} starts from trained runs of {first}, one per seed, in {folder}; their time is not counted."
        for method, first, folder in sorted(found)
    ]


def open_all(cells: Sequence[Cell], *, is_quiet: bool) -> OpenedData:
    """Return the data of all runs that are not done yet.

    Raises:
        UserError: the data or a number of categories cannot be used.
    """
    opened: OpenedData = {}
    for cell in cells:
        reading = cell.settings.reading
        if cell.is_complete:
            continue
        if reading not in opened:
            opened[reading] = open_data(cell.settings, is_quiet=is_quiet)
        given_k(opened[reading][0], cell.settings)
    return opened


def _do(cell: Cell, opened: Opened | None, *, prefix: str, cache: Path | None, is_quiet: bool) -> None:
    what = f"{prefix}{cell.variant}, seed {cell.settings.seed}{' (to start from)' * cell.is_start}"
    if not is_quiet:
        say(f"{what}: complete already" if cell.is_complete else what)
    if cell.is_complete and cell.begun:
        cell.begun.remove_litter()
    if cell.is_complete or opened is None:
        return
    in_grid = InGrid(opened, prefix, go_on=shlex.join(["nngcd", *sys.argv[1:]]))
    fit_run(cell.settings, run=cell.begun, out=cell.path, cache=cache, is_quiet=is_quiet, grid=in_grid)


def noted(report: Report, notes: Sequence[str]) -> Report:
    """Return the report with further notes."""
    return dataclasses.replace(report, notes=[*report.notes, *notes])


def marked(report: Report) -> Report:
    """Return the report of a trial with a title that says so."""
    title = f"SMOKE TEST, few images and epochs, the numbers mean nothing. {report.title}"
    return dataclasses.replace(report, title=title)


def write(done: Done, report: Report, out: Path, name: str) -> list[Path]:
    """Write the table as Markdown and LaTeX, and every run as a line of a CSV; return the files."""
    files = [*report.write(out, name), out / f"{name}.csv"]
    write_table(files[-1], run_table(done.runs))
    return files


def draw(chart: Callable[[], Page], out: Path, name: str) -> list[Path]:
    """Draw a figure as SVG, PDF and PNG; return the files."""
    with plain_style():
        page = chart()
        for form in FORMATS:
            write_bytes(out / f"{name}.{form}", page.render(form, DPI))
    return [out / f"{name}.{form}" for form in FORMATS]


def show(report: Report) -> None:
    """Print the table and its notes."""
    say(f"\n{report.title}\n")
    say(as_table(report.head, report.lines))
    for note in report.notes:
        say(f"\n{note}")


def as_json(rows: Sequence[Row], report: Report, files: Sequence[Path]) -> dict[str, object]:
    """Return what `--json` prints."""
    table = [{"name": row.name, "seconds": row.seconds, "peak_gb": row.peak_gb, "scores": row.scores} for row in rows]
    return {"title": report.title, "rows": table, "notes": list(report.notes), "files": [str(path) for path in files]}


def end(done: Done) -> None:
    """Say which runs failed, and leave with the exit code of the first of them, if there are any."""
    for cell, error in done.failures:
        say_error(f"failed: {cell.variant}, seed {cell.settings.seed}: {error}", mark="")
    if done.failures:
        raise typer.Exit(done.failures[0][1].exit_code)
