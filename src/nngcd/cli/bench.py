"""`nngcd bench`: methods on a benchmark with several seeds, next to the published numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nngcd.cli import shared_options
from nngcd.cli.display import say, say_json


def bench(  # noqa: PLR0913 (one parameter per flag)
    dataset: shared_options.Benchmark,
    method: Annotated[str, typer.Option(metavar="A,B,...", help="Methods to compare, or `all`.")] = "nngcd",
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
    """
    from nngcd.cli import grid
    from nngcd.core.components import component_names
    from nngcd.core.config import parse_assignments
    from nngcd.research.benchmark import benchmark
    from nngcd.research.doing import shared_values

    flags = {
        "preset": preset, "effort": effort, "backbone": backbone, "weights": weights, "image_size": image_size,
        "k": k, "device": device, "workers": workers,
    }  # fmt: skip
    methods = component_names("nngcd.methods", "Method") if method == "all" else grid.names_of(method, "--method")
    settings = shared_values(dataset, root, flags, parse_assignments(assignments or []))
    with grid.grid_display(cache=cache, is_quiet=quiet or json) as doing:
        found = benchmark(
            dataset, methods, seeds=shared_options.seed_range(seeds), settings=settings, root=root, out=out,
            is_smoke=smoke, doing=doing,
        )  # fmt: skip
    if json:
        say_json(grid.as_json(found.rows, found.report, found.files))
    else:
        grid.show(found.report)
        for number, sentence in enumerate(found.gains):
            say(sentence if number else f"\n{sentence}")
        say(f"\nThis table: {found.files[0]} and {found.files[1].name}; every run: {found.files[2]}")
    grid.end(found.done)
