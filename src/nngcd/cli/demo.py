"""`nngcd demo`: the whole path on the embedded digits, nothing downloaded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nngcd.cli import shared_options
from nngcd.cli.display import say, say_json, say_table
from nngcd.cli.words import found_words
from nngcd.core.words import argument

METHODS = {"kmeans": "k-means", "nngcd": "NN-GCD"}


def demo(
    seeds: shared_options.Seeds = "0",
    out: Annotated[Path, typer.Option(help="Folder for the runs.")] = Path("nngcd-demo"),
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
) -> None:
    """Try NN-GCD and k-means on 1,797 scanned digits: 0-4 are partly labelled, 5-9 are to be discovered.

    Example:  nngcd demo --seeds 0-2
    """
    from nngcd import pipeline
    from nngcd.cli.run_display import shown
    from nngcd.research.comparison import row_of

    numbers = shared_options.seed_range(seeds)
    runs: dict[str, list[Any]] = {method: [] for method in METHODS}
    for seed in numbers:
        for method in METHODS:
            settings = {"method": method, "seed": seed, "effort": "quick", "device": "cpu"}
            is_shown = method == "nngcd" and seed == numbers[0]
            with shown(is_quiet=quiet or json) as progress:
                folder = out / f"{method}-seed{seed}"
                runs[method].append(pipeline.run("digits", settings, out=folder, report=is_shown, progress=progress))
    summaries = {method: [run.summary for run in finished] for method, finished in runs.items()}
    first = runs["nngcd"][0].folder
    if json:
        say_json(summaries)
        return
    say()
    rows = [row_of(name, summaries[method]) for method, name in METHODS.items()]
    say_table(["method", "All", "Old", "New", "seconds"], [[*row.cells[:4], f"{row.seconds:.0f}"] for row in rows])
    seed_words = f"seed {numbers[0]}" if len(numbers) == 1 else f"mean ± deviation over {len(numbers)} seeds"
    say(f"({summaries['nngcd'][0]['scores']['protocol']}; K = 10 known; {seed_words})\n")
    for line in found_words(summaries["nngcd"][0]):
        say(line)
    say("The new categories should be the digits 5 to 9, none of which is labelled.\n")
    say(f"Every image's category:  {first.results_csv}")
    if first.report.is_file():  # otherwise a warning has said why not
        say(f"Look at the categories:  open {first.report} in a browser")
    say(f"Correct them:            nngcd review {argument(first.path)}")
    say("With your own images:    nngcd check my_images/   (if nngcd is not found: source .venv/bin/activate)")
