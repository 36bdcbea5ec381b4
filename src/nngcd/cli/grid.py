"""Showing a grid of runs and its table: what bench and study share."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer

from nngcd.cli.display import each_note_once, say, say_error
from nngcd.cli.run_display import shown
from nngcd.core.components import find_component
from nngcd.core.config import Values, flatten
from nngcd.core.errors import ConfigError
from nngcd.core.files import write_bytes
from nngcd.research.comparison import ComparisonRow
from nngcd.research.doing import Doing, Done
from nngcd.research.figures.page import FORMATS, FigurePage, plain_style
from nngcd.research.grid import Variant
from nngcd.research.table_report import TableReport, as_table

DPI = 150


@dataclass(frozen=True, slots=True)
class Asked:
    """Request of `nngcd study`."""

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
    """Return the names of a list with commas, each once."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ConfigError(option, text, "name at least one, or several with commas")
    return names


@contextmanager
def grid_display(*, cache: Path | None, is_quiet: bool) -> Iterator[Doing]:
    """Yield how the runs of a grid are done and shown; what is odd about the data is so in every run, and said once."""
    go_on = shlex.join(["nngcd", *sys.argv[1:]])
    with each_note_once():
        yield Doing(cache, lambda prefix: shown(is_quiet=is_quiet, prefix=prefix), go_on)


def check_study(variants: Sequence[Variant], values: Values) -> None:
    """Raise `ConfigError` when the user sets what a study changes, or takes a method that does not have it."""
    changed = {name for variant in variants for name in flatten(variant.values)}
    for name in sorted(changed & set(flatten(values))):
        raise ConfigError(
            name, flatten(values)[name], "is the setting this study varies; choose its values with --values"
        )
    method = values.get("method", "nngcd")
    method_config = find_component("nngcd.methods", method, "Method").Config
    fields = {f"loss.{field.name}" for field in dataclasses.fields(method_config)}
    for name in sorted(name for name in changed if name.startswith("loss.") and name not in fields):
        raise ConfigError("--method", method, f"has no setting {name}; leave out --method")


def draw(chart: Callable[[], FigurePage], out: Path, name: str) -> list[Path]:
    """Draw a figure as SVG, PDF and PNG; return the files."""
    with plain_style():
        page = chart()
        for form in FORMATS:
            write_bytes(out / f"{name}.{form}", page.render(form, DPI))
    return [out / f"{name}.{form}" for form in FORMATS]


def show(report: TableReport) -> None:
    """Print the table and its notes."""
    say(f"\n{report.title}\n")
    say(as_table(report.head, report.lines))
    for note in report.notes:
        say(f"\n{note}")


def as_json(rows: Sequence[ComparisonRow], report: TableReport, files: Sequence[Path]) -> dict[str, object]:
    """Return what `--json` prints."""
    costs = ("seconds", "processor_minutes", "peak_gb", "scores")
    table = [{"name": row.name} | {cost: getattr(row, cost) for cost in costs} for row in rows]
    return {"title": report.title, "rows": table, "notes": list(report.notes), "files": [str(path) for path in files]}


def end(done: Done) -> None:
    """Say which runs failed, and leave with the exit code of the first of them, if there are any."""
    for cell, error in done.failures:
        say_error(f"failed: {cell.variant}, seed {cell.settings.seed}: {error}", mark="")
    if done.failures:
        raise typer.Exit(done.failures[0][1].exit_code)
