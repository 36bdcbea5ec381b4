"""`nngcd study`: the paper's ablation, pre-trainings and hyper-parameter figures, as grids of runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nngcd.cli import shared_options
from nngcd.cli.display import say, say_json
from nngcd.core.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from nngcd.cli.grid import Asked
    from nngcd.research.grid import Variant

VALUES_HELP = "Run only these values, rows or candidates, separated by commas."
ChosenValues = Annotated[str | None, typer.Option("--values", metavar="A,B,...", help=VALUES_HELP)]
NAME_HELP = "tune, ablation, robustness, temperature, mu, sigma, beta, gamma, activation, pretraining or k."
CANDIDATES_HELP = "tune: a file of settings to choose from. (default: built in)"
FINAL_HELP = "tune: after choosing, also score every candidate on the real task."


def study(  # noqa: PLR0913 (one parameter per flag)
    name: Annotated[str, typer.Argument(metavar="STUDY", help=NAME_HELP)],
    dataset: shared_options.Benchmark,
    values: ChosenValues = None,
    method: shared_options.Method = None,
    seeds: shared_options.Seeds = "0-2",
    root: shared_options.Root = None,
    preset: Annotated[str, typer.Option(help="Recipe to start from: default, paper or official.")] = "official",
    effort: shared_options.Effort = None,
    backbone: shared_options.Backbone = None,
    weights: shared_options.Weights = None,
    image_size: shared_options.ImageSize = None,
    k: shared_options.K = None,
    device: shared_options.OptionalDevice = None,
    workers: shared_options.Workers = None,
    assignments: shared_options.Assignments = None,
    candidates: Annotated[Path | None, typer.Option(metavar="FILE", help=CANDIDATES_HELP)] = None,
    final: Annotated[bool, typer.Option("--final", help=FINAL_HELP)] = False,
    smoke: shared_options.Smoke = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for runs, table and figure. (default: runs/STUDY-DATASET)")
    ] = None,
    cache: shared_options.Cache = None,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
) -> None:
    """Run NN-GCD over a range of one setting, or with components switched off, and draw the figure.

    `tune` chooses settings without using the truth. It makes a smaller task from the labelled images alone, where half
    of the classes play the part of new ones. Every method gets the same candidates (--method simgcd,nngcd), and each
    seed hides different classes.

    Makes one folder per run. If interrupted, repeat the command to continue.

    Example:  nngcd study ablation cub --root data/CUB_200_2011

    Example:  nngcd study tune cub --root data/CUB_200_2011 --method simgcd,nngcd --seeds 0-3
    """
    from nngcd.cli import grid
    from nngcd.cli.tune import tune
    from nngcd.core.config import parse_assignments
    from nngcd.research.doing import shared_values

    flags = {
        "method": None if name == "tune" else method, "preset": preset, "effort": effort, "backbone": backbone,
        "weights": weights, "image_size": image_size, "k": k, "device": device, "workers": workers,
    }  # fmt: skip
    shared = shared_values(dataset, root, flags, parse_assignments(assignments or []))
    out = out or Path("runs") / f"{'smoke-' if smoke else ''}{name}-{dataset}"
    asked = grid.Asked(
        name, dataset, values, shared_options.seed_range(seeds), shared, out, cache, smoke, json, quiet or json
    )
    if name == "tune":
        methods = grid.names_of(method or "nngcd", "--method")
        tune(asked, methods, candidates, is_final=final)
    else:
        _check_tune_only(candidates, is_final=final)
        _run(asked)


def _run(asked: Asked) -> None:
    """Do the runs of a study, and show its table and figure."""
    from nngcd.cli import grid
    from nngcd.research.doing import do_grid, start_notes
    from nngcd.research.figures.page import check_matplotlib
    from nngcd.research.grid import make_grid
    from nngcd.research.study_report import study_chart, study_report

    check_matplotlib()
    name, out = asked.study, asked.out
    variants = _variants(asked)
    grid.check_study(variants, asked.shared)
    cells = make_grid(variants, asked.seeds, asked.shared, out, is_smoke=asked.is_smoke)
    with grid.grid_display(cache=asked.cache, is_quiet=asked.is_quiet) as doing:
        done = do_grid(cells, doing)
    rows = done.rows(on_same_data=name != "robustness")
    report = study_report(name, asked.dataset, rows, done.summaries).with_notes(start_notes(cells))
    report = report.of_a_trial() if asked.is_smoke else report
    files = [*done.write(report, out, name), *grid.draw(lambda: study_chart(name, report, rows), out, name)]
    if asked.as_json:
        say_json(grid.as_json(rows, report, files))
    else:
        grid.show(report)
        say(f"\nThis table: {files[0]} and {files[1].name}; every run: {files[2]}; the figure: {files[3]}")
    grid.end(done)


def _check_tune_only(candidates: Path | None, *, is_final: bool) -> None:
    for option, given in (("--candidates", candidates), ("--final", is_final or None)):
        if given is not None:
            raise ConfigError(option, str(given), "is only for `nngcd study tune`; leave it out")


def _variants(asked: Asked) -> list[Variant]:
    """Return the rows of a study, with the user's values where there are any."""
    from nngcd.cli.grid import grid_display
    from nngcd.research.doing import numbers_of_classes
    from nngcd.research.grid import shortened
    from nngcd.research.studies import NAMES, SWEEPS, ablation, chosen_rows, chosen_values, robustness
    from nngcd.settings import resolve

    name, values, shared, every = asked.study, asked.values, asked.shared, ("tune", *NAMES)
    if name not in NAMES:
        raise ConfigError("STUDY", name, f"unknown study.{did_you_mean(name, every)} Choose from: {', '.join(every)}")
    if name == "ablation":
        return chosen_rows(ablation(), values)
    needs_numbers = name == "robustness" or (name == "k" and values is None)
    with grid_display(cache=None, is_quiet=asked.is_quiet) as doing:
        n_old, n_classes = numbers_of_classes(shared, doing) if needs_numbers else (0, None)
    if name == "robustness":
        epochs = resolve(shortened(shared) if asked.is_smoke else shared).training.epochs
        return chosen_rows(robustness(n_classes or n_old, epochs), values)
    return SWEEPS[name].variants(chosen_values(SWEEPS[name], values, n_old=n_old, n_classes=n_classes))
