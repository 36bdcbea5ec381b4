"""`nngcd study`: the paper's ablation, pre-trainings and hyper-parameter figures, as grids of runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nngcd.cli import options
from nngcd.cli.display import say, say_json
from nngcd.core.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from nngcd.bench.grid import Variant
    from nngcd.cli.grid import Asked

VALUES_HELP = "Values, or names of rows or candidates, instead of all."
ChosenValues = Annotated[str | None, typer.Option("--values", metavar="A,B,...", help=VALUES_HELP)]
NAME_HELP = "tune, ablation, robustness, temperature, mu, sigma, beta, gamma, activation, pretraining or k."
CANDIDATES_HELP = "tune: a file with the settings to choose from. (default: ours)"
FINAL_HELP = "tune: after the choice, score every candidate on the real task, too."


def study(  # noqa: PLR0913 (one parameter per flag)
    name: Annotated[str, typer.Argument(metavar="STUDY", help=NAME_HELP)],
    dataset: options.Benchmark,
    values: ChosenValues = None,
    method: options.Method = None,
    seeds: options.Seeds = "0-2",
    root: options.Root = None,
    preset: Annotated[str, typer.Option(help="default, paper or official.")] = "official",
    effort: options.Effort = None,
    backbone: options.Backbone = None,
    weights: options.Weights = None,
    image_size: options.ImageSize = None,
    k: options.K = None,
    device: options.OptionalDevice = None,
    workers: options.Workers = None,
    assignments: options.Assignments = None,
    candidates: Annotated[Path | None, typer.Option(metavar="FILE", help=CANDIDATES_HELP)] = None,
    final: Annotated[bool, typer.Option("--final", help=FINAL_HELP)] = False,
    smoke: options.Smoke = False,
    out: Annotated[Path | None, typer.Option(help="Where everything goes. (default: runs/STUDY-DATASET)")] = None,
    cache: options.Cache = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Run NN-GCD with one setting changed step by step, or its components switched on and off; draw the figure.

    `tune` chooses among candidate settings without the truth: of the labelled images alone it makes a small task in
    which half of the classes play the new ones, with the same candidates for every method (--method simgcd,nngcd); its
    seeds are the folds of hidden classes.

    One folder per run; when interrupted, the same command goes on where it stopped.

    Example:  nngcd study ablation cub --root data/CUB_200_2011

    Example:  nngcd study tune cub --root data/CUB_200_2011 --method simgcd,nngcd --seeds 0-3
    """
    # Imported here: torch takes seconds, and `nngcd --help` should not wait for it.
    from nngcd.cli import grid
    from nngcd.cli.tune import tune

    flags = {
        "method": None if name == "tune" else method, "preset": preset, "effort": effort, "backbone": backbone,
        "weights": weights, "image_size": image_size, "k": k, "device": device, "workers": workers,
    }  # fmt: skip
    shared = grid.shared_values(dataset, root, flags, assignments or [])
    out = out or Path("runs") / f"{'smoke-' if smoke else ''}{name}-{dataset}"
    asked = grid.Asked(name, dataset, values, options.seed_range(seeds), shared, out, cache, smoke, json, quiet or json)
    if name == "tune":
        methods = grid.names_of(method or "nngcd", "--method")
        tune(asked, methods, candidates, is_final=final)
    else:
        _check_tune_only(candidates, is_final=final)
        _run(asked)


def _run(asked: Asked) -> None:
    """Do the runs of a study, and show its table and figure."""
    from nngcd.bench.grid import make_grid
    from nngcd.bench.study_report import study_chart, study_report
    from nngcd.cli import grid
    from nngcd.figures.page import check_matplotlib

    check_matplotlib()
    name, out = asked.study, asked.out
    variants = _variants(asked)
    grid.check_study(variants, asked.shared)
    cells = make_grid(variants, asked.seeds, asked.shared, out, is_smoke=asked.is_smoke)
    done = grid.do_grid(cells, cache=asked.cache, is_quiet=asked.is_quiet)
    rows = done.rows(on_same_data=name != "robustness")
    report = grid.noted(study_report(name, asked.dataset, rows, done.summaries), grid.start_notes(cells))
    report = grid.marked(report) if asked.is_smoke else report
    files = [*grid.write(done, report, out, name), *grid.draw(lambda: study_chart(name, report, rows), out, name)]
    if asked.as_json:
        say_json(grid.as_json(rows, report, files))
    else:
        grid.show(report)
        say(f"\nThis table: {files[0]} and {files[1].name}; every run: {files[2]}; the figure: {files[3]}")
    grid.end(done)


def _check_tune_only(candidates: Path | None, *, is_final: bool) -> None:
    for option, given in (("--candidates", candidates), ("--final", is_final or None)):
        if given is not None:
            raise ConfigError(option, str(given), "belongs to `nngcd study tune`; leave it out")


def _variants(asked: Asked) -> list[Variant]:
    """Return the rows of a study, with the user's values where there are any."""
    from nngcd.bench.grid import shortened
    from nngcd.bench.studies import NAMES, SWEEPS, ablation, chosen_rows, chosen_values, robustness
    from nngcd.cli.grid import numbers_of_classes
    from nngcd.settings import resolve

    name, values, shared, every = asked.study, asked.values, asked.shared, ("tune", *NAMES)
    if name not in NAMES:
        raise ConfigError("STUDY", name, f"no such study.{did_you_mean(name, every)} There are: {', '.join(every)}")
    if name == "ablation":
        return chosen_rows(ablation(), values)
    needs_numbers = name == "robustness" or (name == "k" and values is None)
    n_old, n_classes = numbers_of_classes(shared, is_quiet=asked.is_quiet) if needs_numbers else (0, None)
    if name == "robustness":
        epochs = resolve(shortened(shared) if asked.is_smoke else shared).training.epochs
        return chosen_rows(robustness(n_classes or n_old, epochs), values)
    return SWEEPS[name].variants(chosen_values(SWEEPS[name], values, n_old=n_old, n_classes=n_classes))
