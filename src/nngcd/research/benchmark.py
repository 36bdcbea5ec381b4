"""A benchmark: methods on one data set with several seeds, compared with the published numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nngcd.research.benchmark_report import benchmark_report, on_one_backbone
from nngcd.research.comparison import ComparisonRow, gain_sentences, ranked
from nngcd.research.doing import Doing, Done, do_grid, shared_values, start_notes
from nngcd.research.grid import Variant, make_grid
from nngcd.research.table_report import TableReport
from nngcd.settings import presets_of


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
    methods: Sequence[str] = ("nngcd",),
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
        methods: names of files in `nngcd/methods`.
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
    without = [name for name in methods if values.get("preset", "default") not in presets_of(name)]
    # If no method has the preset, all stay, and the first one raises the error.
    variants = [Variant(name, {"method": name}) for name in methods if name not in without or without == [*methods]]
    cells = make_grid(variants, seeds, values, folder, is_smoke=is_smoke)
    done = do_grid(cells, doing)
    rows = done.rows()
    report = benchmark_report(dataset, rows, done.summaries, without=without).with_notes(start_notes(cells))
    report = report.of_a_trial() if is_smoke else report
    gains = list(gain_sentences(ranked(on_one_backbone(rows, done.summaries))))
    return Outcome(rows, report, done.write(report, folder, "bench"), gains, done)
