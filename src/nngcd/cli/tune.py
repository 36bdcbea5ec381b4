"""`nngcd study tune`: settings chosen on hidden labelled classes, the same candidates for every method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nngcd.bench.comparison import Row, row_of
from nngcd.bench.grid import Variant, make_grid
from nngcd.bench.tuning import (
    Choice,
    choose,
    hidden_values,
    read_candidates,
    tuning_protocol,
    tuning_report,
    tuning_variants,
)
from nngcd.cli import grid
from nngcd.cli.display import say, say_json
from nngcd.core.config import Values, merge
from nngcd.core.files import write_yaml


@dataclass(frozen=True, slots=True)
class Tuning:
    """What to tune, and on what."""

    dataset: str
    methods: Sequence[str]
    candidates: Path | None
    names: Sequence[str] | None
    """Of the candidates; all when absent."""
    seeds: Sequence[int]
    """The folds of hidden classes; with `is_final` also the seeds on the real task."""
    shared: Values
    is_final: bool
    is_smoke: bool


def tune(tuning: Tuning, *, out: Path, cache: Path | None, as_json: bool, is_quiet: bool) -> None:
    """Run every candidate on hidden classes, choose, and only then on the real task if that is wanted; show it all."""
    variants = tuning_variants(tuning.methods, read_candidates(tuning.candidates), tuning.names)
    # All settings are checked before the first of many runs.
    tasks = [merge(tuning.shared, hidden_values(seed)) for seed in tuning.seeds]
    cells = [make_grid(variants, [seed], task, out / "hidden", is_smoke=tuning.is_smoke)
             for seed, task in zip(tuning.seeds, tasks, strict=True)]  # fmt: skip
    cache = cache or out.parent / ".nngcd-cache"
    parts = []
    for number, fold in enumerate(cells, start=1):
        if not is_quiet:
            say(f"hidden classes, fold {number} of {len(cells)}")
        parts.append(grid.do_grid(fold, cache=cache, is_quiet=is_quiet))
    hidden = grid.Done([run for part in parts for run in part.runs], [fail for part in parts for fail in part.failures])
    proxy = _rows(hidden, variants)
    choices = choose(variants, proxy)
    files = [out / f"chosen-{choice.method}.yaml" for choice in choices]
    for path, choice in zip(files, choices, strict=True):
        write_yaml(path, dict(choice.settings))

    real = grid.Done([], [])
    if tuning.is_final:
        cells_real = make_grid(variants, tuning.seeds, tuning.shared, out / "real", is_smoke=tuning.is_smoke)
        real = grid.do_grid(cells_real, cache=cache, is_quiet=is_quiet)
    protocol = tuning_protocol(hidden.summaries)
    report = tuning_report(tuning.dataset, proxy, _rows(real, variants), choices, protocol)
    report = grid.marked(report) if tuning.is_smoke else report
    done = grid.Done([*hidden.runs, *real.runs], [*hidden.failures, *real.failures])
    files += grid.write(done, report, out, "tune")
    if as_json:
        say_json(grid.as_json(list(proxy.values()), report, files) | {"chosen": _as_json(choices)})
    else:
        grid.show(report)
        for choice, path in zip(choices, files, strict=False):
            say(f"\nChosen for {choice.method}: {choice.candidate}. Use it: nngcd fit DATA --config {path}")
        say(f"\nThis table: {out / 'tune.md'} and tune.tex; every run: {out / 'tune.csv'}")
    grid.end(done)


def _rows(done: grid.Done, variants: Sequence[Variant]) -> dict[str, Row]:
    """Return the row of each candidate that has runs. Folds differ in their labels, so seeds stand for folds here."""
    groups = {str(variant): [s for cell, s in done.runs if cell.variant.name == variant.name] for variant in variants}
    return {name: row_of(name, group) for name, group in groups.items() if group}


def _as_json(choices: Sequence[Choice]) -> list[dict[str, object]]:
    return [{"method": one.method, "candidate": one.candidate, "settings": dict(one.settings)} for one in choices]
