"""A benchmark: methods on one data set with several seeds, compared with the published numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from nngcd.research.benchmark_report import MOST_NAMED, benchmark_report, on_one_backbone
from nngcd.research.comparison import ComparisonRow, gain_sentences, ranked
from nngcd.research.doing import Doing, Done, OpenedData, do_grid, open_all, shared_values, start_notes
from nngcd.research.grid import Cell, make_grid
from nngcd.research.lineup import every_name, lineup, method_of, missing_packages, why_unfit
from nngcd.research.table_report import TableReport
from nngcd.settings import presets_of

NEAREST = 3
"""Rows that the best one of a long table is compared with in words."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a benchmark: its table, and the files it was written to."""

    rows: list[ComparisonRow]
    report: TableReport
    files: list[Path]
    """The table as Markdown and LaTeX, and every run as a line of a CSV."""
    gains: list[str]
    """Sentences about the differences between methods, seed by seed."""
    done: Done


def benchmark(  # noqa: PLR0913 (everything but the data set has a default)
    dataset: str,
    methods: Sequence[str] | Literal["all"] = ("nngcd",),
    *,
    seeds: Sequence[int] = (0, 1, 2),
    settings: Mapping[str, Any] | None = None,
    root: str | Path | None = None,
    out: str | Path | None = None,
    is_smoke: bool = False,
    doing: Doing | None = None,
) -> Outcome:
    """Run methods on a benchmark and write the table; finished runs are not repeated.

    Args:
        dataset: the name of a benchmark, or `digits`.
        methods: names of files in `nngcd/methods`, also with `+hypcd` or `+eagc`; or `all` that fit this machine.
        seeds: the runs of each method.
        settings: what all runs share, nested as in config.yaml.
        root: where the benchmark's official files are, unless it was added with `nngcd data add`.
        out: the folder for everything, by default `runs/bench-DATASET` (a trial: `runs/smoke-DATASET`).
        is_smoke: whether to make only a short trial that shows that everything runs.
        doing: where views are kept, and how progress is shown.

    Raises:
        UserError: a name or setting cannot be used, or no run came to its end.
    """
    doing, folder = doing or Doing(), Path(out or f"runs/{'smoke' if is_smoke else 'bench'}-{dataset}")
    values = shared_values(dataset, Path(root) if root else None, settings or {}, {})
    names, preset = every_name() if methods == "all" else [*methods], values.get("preset", "default")
    without = [name for name in names if preset not in presets_of(method_of(name))]
    # If no method has the preset, all stay, and the first one raises the error.
    variants = lineup([name for name in names if name not in without or without == names], preset)
    left_out = missing_packages(variants) if methods == "all" else {}
    cells = make_grid([v for v in variants if v.name not in left_out], seeds, values, folder, is_smoke=is_smoke)
    opened = open_all(cells, doing)
    if methods == "all":
        cells, unfit_here = _that_fit(cells, opened)
        left_out |= unfit_here
        with doing.shown("") as progress:
            for name, reason in left_out.items():
                progress.tell(f"Left out: {name}: {reason}")
    done = do_grid(cells, doing, opened=opened)
    rows = ranked(done.rows()) if methods == "all" else done.rows()
    summaries = [{**summary, "method": str(cell.variant)} for cell, summary in done.runs]
    report = benchmark_report(dataset, rows, summaries, without=without).with_notes(start_notes(cells))
    report = report.with_notes([f"Left out: {name}: {reason}" for name, reason in left_out.items()])
    report = report.of_a_trial() if is_smoke else report
    gains = list(gain_sentences(ranked(on_one_backbone(rows, summaries))))
    gains = gains if len(gains) < MOST_NAMED else gains[-NEAREST:]
    return Outcome(rows, report, done.write(report, folder, "bench"), gains, done)


def _that_fit(cells: Sequence[Cell], opened: OpenedData) -> tuple[list[Cell], dict[str, str]]:
    """Return the runs of methods that fit the machine, and why the others do not; one that has finished a run does."""
    fits = {cell.variant.name for cell in cells if cell.is_complete}
    asked = {cell.variant.name: cell for cell in cells if not cell.is_start and cell.variant.name not in fits}
    found = {name: why_unfit(cell.settings, opened[cell.settings.reading][0]) for name, cell in asked.items()}
    reasons = {name: reason for name, reason in found.items() if reason}
    kept = [cell for cell in cells if cell.is_start or cell.variant.name not in reasons]
    starts = {cell.start for cell in kept}
    return [cell for cell in kept if not cell.is_start or cell.path in starts], reasons
