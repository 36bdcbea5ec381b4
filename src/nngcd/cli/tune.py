"""`nngcd study tune`: settings chosen on hidden labelled classes, the same candidates for every method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nngcd.cli import grid
from nngcd.cli.display import say, say_json
from nngcd.core.config import flatten
from nngcd.core.errors import ConfigError
from nngcd.core.files import write_yaml
from nngcd.research.comparison import ComparisonRow
from nngcd.research.doing import Done, do_grid, open_all
from nngcd.research.grid import Cell, make_grid
from nngcd.research.tuning import (
    OF_THE_MINIATURE,
    Choice,
    choose,
    in_miniature,
    possible_in,
    read_candidates,
    tuning_protocol,
    tuning_report,
    tuning_variants,
)


def tune(asked: grid.Asked, methods: Sequence[str], candidates: Path | None, *, is_final: bool) -> None:
    """Run every candidate on hidden classes and choose; then, if asked to, run them on the real task. Show it all.

    The seeds are the folds of hidden classes, and those of the real task.
    """
    for name in sorted(OF_THE_MINIATURE & set(flatten(asked.shared))):
        raise ConfigError(name, flatten(asked.shared)[name], "is set by this study; leave it out")
    names = None if asked.values is None else grid.names_of(asked.values, "--values")
    offered = read_candidates(candidates)
    if candidates is None and names is None:
        offered = possible_in(asked.shared["effort"], offered)
    told_by = f"--candidates {candidates}" if candidates else "the built-in candidates (yours: --candidates FILE)"
    variants = tuning_variants(methods, offered, names, told_by=told_by)
    real_cells = make_grid(variants, asked.seeds, asked.shared, asked.out / "real", is_smoke=asked.is_smoke)
    # An impossible K is reported now, not after all runs on hidden classes.
    with grid.grid_display(cache=asked.cache, is_quiet=asked.is_quiet) as doing:
        opened = open_all(real_cells, doing) if is_final else {}
        cells = [cell for real in real_cells if not real.is_start for cell in _miniature(asked, real)]
        hidden = do_grid(cells, doing)
    proxy = _rows(hidden)
    choices = choose(variants, proxy, asked.shared)
    files = [asked.out / f"chosen-{choice.method}.yaml" for choice in choices]
    for path, choice in zip(files, choices, strict=True):
        write_yaml(path, dict(choice.settings))

    real = Done([], [])
    if is_final:
        with grid.grid_display(cache=asked.cache, is_quiet=asked.is_quiet) as doing:
            real = do_grid(real_cells, doing, opened=opened)
    report = tuning_report(asked.dataset, proxy, _rows(real), choices, tuning_protocol(hidden.summaries))
    report = report.of_a_trial() if asked.is_smoke else report
    done = Done([*hidden.runs, *real.runs], [*hidden.failures, *real.failures])
    tables = done.write(report, asked.out, "tune")
    if asked.as_json:
        say_json(grid.as_json(list(proxy.values()), report, [*files, *tables]) | {"chosen": _as_json(choices)})
    else:
        grid.show(report)
        for choice, path in zip(choices, files, strict=True):
            say(f"\nChosen for {choice.method}: {choice.candidate}. Use it: nngcd fit DATA --config {path}")
        say(f"\nThis table: {tables[0]} and {tables[1].name}; every run: {tables[2]}")
    grid.end(done)


def _miniature(asked: grid.Asked, real: Cell) -> list[Cell]:
    """Return the run on hidden classes that belongs to one on the real task."""
    out, seeds = asked.out / "hidden", [real.settings.seed]
    return make_grid([in_miniature(real)], seeds, asked.shared, out, is_smoke=asked.is_smoke)


def _rows(done: Done) -> dict[str, ComparisonRow]:
    """Return the row of each candidate. Folds differ in their labels, so that their runs are on different data."""
    return {row.name: row for row in done.rows(on_same_data=False)}


def _as_json(choices: Sequence[Choice]) -> list[dict[str, object]]:
    return [{"method": one.method, "candidate": one.candidate, "settings": dict(one.settings)} for one in choices]
