"""`nngcd bench`: methods on a benchmark, several seeds, beside the published numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nngcd.cli import options
from nngcd.cli.display import say, say_json


def bench(  # noqa: PLR0913 (one parameter per flag)
    dataset: options.Benchmark,
    method: Annotated[str, typer.Option(metavar="A,B,...", help="Methods to compare, or `all`.")] = "nngcd",
    seeds: options.Seeds = "0-2",
    root: options.Root = None,
    preset: options.Preset = None,
    effort: options.Effort = None,
    backbone: options.Backbone = None,
    weights: options.Weights = None,
    image_size: options.ImageSize = None,
    k: options.K = None,
    device: options.OptionalDevice = None,
    workers: options.Workers = None,
    assignments: options.Assignments = None,
    smoke: options.Smoke = False,
    out: Annotated[Path | None, typer.Option(help="Where everything goes. (default: runs/bench-DATASET)")] = None,
    cache: options.Cache = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Run methods on a benchmark with several seeds, and print our numbers beside the published ones.

    One folder per run; when interrupted, the same command goes on where it stopped.

    Example:  nngcd bench cub --root data/CUB_200_2011 --method simgcd,nngcd --preset official
    """
    # Imported here: torch takes seconds, and `nngcd --help` should not wait for it.
    from nngcd.bench.benchmark_report import benchmark_report, on_one_backbone
    from nngcd.bench.comparison import gain_sentences, ranked
    from nngcd.bench.grid import Variant, make_grid
    from nngcd.cli import grid
    from nngcd.core.components import component_names
    from nngcd.settings import presets_of

    flags = {
        "preset": preset, "effort": effort, "backbone": backbone, "weights": weights, "image_size": image_size,
        "k": k, "device": device, "workers": workers,
    }  # fmt: skip
    values = grid.shared_values(dataset, root, flags, assignments or [])
    methods = component_names("nngcd.methods", "Method") if method == "all" else grid.names_of(method, "--method")
    out = out or Path("runs") / f"{'smoke' if smoke else 'bench'}-{dataset}"
    without = [name for name in methods if values.get("preset", "default") not in presets_of(name)]
    # Where no method has the preset, the first one says so.
    variants = [Variant(name, {"method": name}) for name in methods if name not in without or without == methods]
    cells = make_grid(variants, options.seed_range(seeds), values, out, is_smoke=smoke)
    done = grid.do_grid(cells, cache=cache, is_quiet=quiet or json)
    rows = done.rows()
    report = benchmark_report(dataset, rows, done.summaries, without=without)
    report = grid.noted(report, grid.start_notes(cells))
    report = grid.marked(report) if smoke else report
    files = grid.write(done, report, out, "bench")
    if json:
        say_json(grid.as_json(rows, report, files))
    else:
        grid.show(report)
        for number, sentence in enumerate(gain_sentences(ranked(on_one_backbone(rows, done.summaries)))):
            say(sentence if number else f"\n{sentence}")
        say(f"\nThis table: {files[0]} and {files[1].name}; every run: {files[2]}")
    grid.end(done)
