"""Doing a grid of runs and showing its table: what bench and study share."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from nngcd.bench.benchmark_report import run_table
from nngcd.bench.comparison import Row, Summary, check_comparable, row_of
from nngcd.bench.grid import Cell
from nngcd.bench.tables import Report, as_table
from nngcd.cli.display import ERRORS, each_note_once, say
from nngcd.cli.running import fit_run, values_from
from nngcd.core.components import component_names
from nngcd.core.config import Values, build, merge
from nngcd.core.errors import ConfigError, ResourceError, TrainingError, UserError, did_you_mean
from nngcd.core.files import read_json, write_bytes, write_table
from nngcd.core.run_folder import RunFolder
from nngcd.datasets import open_dataset
from nngcd.datasets.reading import Config as ReadingConfig
from nngcd.figures.page import FORMATS, Page, plain_style

DPI = 150
OF_THE_USER = ("folder", "manifest", "arrays")
"""Forms of data that bring no truth."""
SMOKE: Values = {"training": {"epochs": 2}, "reading": {"n_images": 300}}
"""What `--smoke` sets: enough to see whether everything runs, and nothing else."""


@dataclass(frozen=True, slots=True)
class Done:
    """What a grid of runs gave."""

    runs: list[tuple[Cell, Summary]]
    failures: list[tuple[Cell, UserError]]

    @property
    def summaries(self) -> list[Summary]:
        """The summaries of all runs that came to their end."""
        return [summary for _, summary in self.runs]

    def rows(self) -> list[Row]:
        """Return one row per variant, in their order."""
        check_comparable(self.summaries)
        names = dict.fromkeys(cell.variant.name for cell, _ in self.runs)
        return [row_of(name, [s for cell, s in self.runs if cell.variant.name == name]) for name in names]


def names_of(text: str, option: str) -> list[str]:
    """Return the names of a list with commas, each once.

    Raises:
        ConfigError: there is none.
    """
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ConfigError(option, text, "name at least one, or several with commas")
    return names


def shared_values(
    dataset: str, root: Path | None, flags: Mapping[str, Any], assignments: list[str], *, is_smoke: bool
) -> Values:
    """Return the settings that all runs of a grid share.

    Raises:
        ConfigError: no benchmark of that name, so there would be no truth to score against.
    """
    names = [name for name in component_names("nngcd.datasets", "load") if name not in OF_THE_USER]
    if dataset not in names:
        hint = did_you_mean(dataset, names)
        raise ConfigError("DATASET", dataset, f"no such benchmark.{hint} There are: {', '.join(names)}")
    place = {"data": str(root), "dataset": dataset} if root else {"data": dataset}
    values = values_from({**flags, **place}, None, assignments)
    return merge(values, SMOKE) if is_smoke else values


def number_of_classes(values: Values) -> int | None:
    """Return how many classes the data set of these settings really has, if it says so."""
    reading_config = build(ReadingConfig, values.get("reading", {}))
    return open_dataset(values["data"], dataset=values.get("dataset"), reading=reading_config)[0].n_classes


def do_grid(cells: Sequence[Cell], *, cache: Path | None, is_quiet: bool) -> Done:
    """Do every run of the grid that is not done yet; one that fails does not stop the others.

    Views are kept beside the folder of the grid by default, where other grids of the same data find them.
    """
    done = Done([], [])
    cache = cache or cells[0].path.parent.parent / ".nngcd-cache"
    # What is odd about the data is so in every run.
    with each_note_once():
        for number, cell in enumerate(cells, start=1):
            try:
                run = _do(cell, prefix=f"[{number}/{len(cells)}] ", cache=cache, is_quiet=is_quiet)
            except (TrainingError, ResourceError) as error:
                done.failures.append((cell, error))
            else:
                done.runs.append((cell, read_json(run.summary)))
    if not done.runs:
        raise done.failures[0][1]
    return done


def _do(cell: Cell, *, prefix: str, cache: Path, is_quiet: bool) -> RunFolder:
    is_complete = cell.begun is not None and cell.begun.is_complete
    if not is_quiet:
        what = f"{prefix}{cell.variant.name}, seed {cell.settings.seed}"
        say(f"{what}: complete already" if is_complete else what)
    return fit_run(
        cell.settings, run=cell.begun, out=cell.path, cache=cache, prefix=prefix,
        is_quiet=is_quiet or is_complete, go_on=shlex.join(["nngcd", *sys.argv[1:]]),
    )  # fmt: skip


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
    say()
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
        ERRORS.print(f"failed: {cell.variant.name}, seed {cell.settings.seed}: {error}", markup=False, highlight=False)
    if done.failures:
        raise typer.Exit(done.failures[0][1].exit_code)
