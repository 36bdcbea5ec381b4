"""`nngcd bench`: methods on one benchmark or all, with several seeds, next to the published numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nngcd.cli import shared_options
from nngcd.cli.display import say, say_error, say_json
from nngcd.core.errors import ConfigError, UserError

if TYPE_CHECKING:
    from nngcd.research.benchmark import Outcome

ALL = "all"
FEWEST_DRAWN = 3
"""Methods from which on a picture of their cost is drawn."""
METHOD_HELP = "Methods to compare; +hypcd and +eagc can be added. `all`: those that fit this machine. (default: nngcd)"
DATASET_HELP = "A benchmark, for example cub, or digits. `all`: digits and every added one, with all methods."


def bench(  # noqa: PLR0913 (one parameter per flag)
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help=DATASET_HELP)],
    method: Annotated[str | None, typer.Option(metavar="A,B,...", help=METHOD_HELP)] = None,
    seeds: shared_options.Seeds = "0-2",
    root: shared_options.Root = None,
    preset: shared_options.Preset = None,
    effort: shared_options.Effort = None,
    backbone: shared_options.Backbone = None,
    weights: shared_options.Weights = None,
    image_size: shared_options.ImageSize = None,
    k: shared_options.K = None,
    device: shared_options.OptionalDevice = None,
    workers: shared_options.Workers = None,
    assignments: shared_options.Assignments = None,
    smoke: shared_options.Smoke = False,
    out: Annotated[Path | None, typer.Option(help="Folder for runs and table. (default: runs/bench-DATASET)")] = None,
    cache: shared_options.Cache = None,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
) -> None:
    """Run methods on a benchmark with several seeds, and compare the results with the published ones.

    Makes one folder per run. If interrupted, repeat the command to continue.

    Example:  nngcd bench cub --root data/CUB_200_2011 --method simgcd,nngcd --preset official

    Example:  nngcd bench digits --method all
    """
    from nngcd.cli import grid
    from nngcd.core.config import parse_assignments
    from nngcd.research.benchmark import benchmark
    from nngcd.research.doing import shared_values

    flags = {
        "preset": preset, "effort": effort, "backbone": backbone, "weights": weights, "image_size": image_size,
        "k": k, "device": device, "workers": workers,
    }  # fmt: skip
    chosen = method or (ALL if dataset == ALL else "nngcd")
    methods = "all" if chosen == ALL else grid.names_of(chosen, "--method")
    with grid.grid_display(cache=cache, is_quiet=quiet or json) as doing:

        def run(name: str) -> Outcome:
            settings = shared_values(name, root, flags, parse_assignments(assignments or []))
            folder = out / name if out and dataset == ALL else out
            return benchmark(
                name, methods, seeds=shared_options.seed_range(seeds), settings=settings, root=root, out=folder,
                is_smoke=smoke, doing=doing,
            )  # fmt: skip

        if dataset == ALL:
            _bench_all(_known_datasets(root), run, as_json=json)
            return
        outcome = run(dataset)
    if json:
        say_json(grid.as_json(outcome.rows, outcome.report, outcome.files))
    else:
        _show(outcome)
    grid.end(outcome.done)


def _bench_all(names: Sequence[str], run: Callable[[str], Outcome], *, as_json: bool) -> None:
    """Make the table of each data set; one that cannot be used does not stop the others."""
    from nngcd.cli import grid

    found: list[Outcome] = []
    failed: list[UserError] = []
    for name in names:
        try:
            found.append(run(name))
        except UserError as error:
            failed.append(error)
            say_error(f"failed: {name}: {error}", mark="")
            continue
        if not as_json:
            _show(found[-1])
    if as_json:
        say_json([grid.as_json(one.rows, one.report, one.files) for one in found])
    for outcome in found:
        grid.end(outcome.done)
    if failed:
        raise typer.Exit(failed[0].exit_code)


def _known_datasets(root: Path | None) -> list[str]:
    """Return the data sets that this machine knows: the digits, and all that were added."""
    from nngcd.datasets.places import known_places

    if root:
        raise ConfigError("--root", str(root), "belongs to one data set; add it with `nngcd data add` and leave it out")
    return ["digits", *sorted(known_places())]


def _show(outcome: Outcome) -> None:
    """Print the table and draw cost, if there is enough to see."""
    from nngcd.cli import grid
    from nngcd.research.figures.charts import cost_chart

    grid.show(outcome.report)
    for number, sentence in enumerate(outcome.gains):
        say(sentence if number else f"\n{sentence}")
    files = outcome.files
    say(f"\nThis table: {files[0]} and {files[1].name}; every run: {files[2]}")
    if len(outcome.rows) < FEWEST_DRAWN:
        return
    if find_spec("matplotlib") is None:
        say('For a picture of accuracy against cost: pip install "nngcd[plot]"')
        return
    caption = [f"{outcome.report.title}.", outcome.report.notes[0]]
    drawn = grid.draw(lambda: cost_chart(outcome.rows, caption=caption), files[0].parent, "cost")
    say(f"Accuracy against cost: {drawn[0]}")
