"""`nngcd estimate-k`: only the number of categories, with its interval and curve."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from nngcd.cli import options
from nngcd.cli.display import progress_display, reading, say, say_json
from nngcd.cli.words import k_words
from nngcd.core.errors import ConfigError

DataOrRun = Annotated[str, typer.Argument(metavar="DATA|RUN", help="Images as for `nngcd fit`, or a finished run.")]
METHOD_HELP = "auto, pairs, accuracy (GCD), hold-out (CiPR) or silhouette (uses no labels)."
OUT_HELP = "Folder for k.json and k.svg. (default: runs/NAME-k, or estimate-k in RUN)"


def estimate_k(  # noqa: PLR0913 (one parameter per flag)
    data: DataOrRun,
    dataset: options.Dataset = None,
    range_: Annotated[str, typer.Option("--range", metavar="A..B", help="Fewest and most categories.")] = "auto",
    method: Annotated[str, typer.Option(help=METHOD_HELP)] = "auto",
    backbone: Annotated[str | None, typer.Option(help="As for `nngcd fit`. (default: efficientnet_lite0)")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the clusterings.")] = 0,
    workers: options.Workers = None,
    out: Annotated[Path | None, typer.Option(help=OUT_HELP)] = None,
    cache: options.Cache = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Estimate how many categories there are, known and new together; no image is sorted.

    Example:  nngcd estimate-k my_images/
    """
    # Imported here: torch takes seconds, and `nngcd --help` should not wait for it.
    from nngcd.clustering.estimate_k import checked_method
    from nngcd.core.run_folder import RunFolder, new_folder
    from nngcd.datasets import open_dataset
    from nngcd.estimation import estimate_of_images, estimate_of_run
    from nngcd.run_files import write_estimate
    from nngcd.settings import resolve

    way = checked_method(method)
    flags = {"data": data, "dataset": dataset, "backbone": backbone, "seed": seed, "workers": workers, "k": range_}
    settings = resolve({name: value for name, value in flags.items() if value is not None})
    if settings.k_range and settings.k_range[0] == settings.k_range[1]:
        raise ConfigError("--range", range_, "must be a range such as 20..60")
    with progress_display(is_quiet=quiet or json) as progress:
        if RunFolder(Path(data)).environment.is_file():
            for name, value in {"dataset": dataset, "backbone": backbone, "workers": workers, "cache": cache}.items():
                if value is not None:
                    raise ConfigError(f"--{name}", str(value), "is for images; a run brings its own features")
            found = estimate_of_run(RunFolder.open(Path(data)), settings, method=way, progress=progress)
            what, out = f"--config {Path(data) / 'config.yaml'}", out or Path(data) / "estimate-k"
        else:
            split, _ = open_dataset(data, dataset=dataset, reading=settings.reading, on_progress=reading(progress))
            what = f"{data} --dataset {dataset}" if dataset else data
            out = out or Path("runs") / f"{split.name}-k"
            cache = cache or out.parent / ".nngcd-cache"
            found = estimate_of_images(split, settings, method=way, cache=cache, progress=progress)
    out = new_folder(out)
    write_estimate(out, found)
    if json:
        say_json({"out": str(out), **asdict(found)})
        return
    say()
    for line in k_words(found.k, asdict(found)):
        say(line)
    say(f"\nCurve and numbers:  {out / 'k.svg'}, {out / 'k.json'}")
    say(f"Sort the images:    nngcd fit {what} --k {found.k}")
