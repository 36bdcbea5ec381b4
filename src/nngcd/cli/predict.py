"""`nngcd predict`: label new images with a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nngcd.cli import options
from nngcd.cli.display import progress_display, reading, say, say_json
from nngcd.core.errors import ConfigError


def predict(  # noqa: PLR0913 (one parameter per flag)
    run: options.Run,
    data: options.Data,
    out: Annotated[Path, typer.Option(help="Table to write: .csv or .parquet.")] = Path("predictions.csv"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the table if it is there.")] = False,
    dataset: options.Dataset = None,
    device: options.Device = "auto",
    workers: options.Workers = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Put the images of DATA into the categories of a finished run.

    Example:  nngcd predict runs/first new_images/ --out new.csv
    """
    # Imported here: torch takes seconds, and `nngcd --help` should not wait for it.
    from nngcd.core.files import write_table
    from nngcd.core.run_folder import RunFolder
    from nngcd.datasets import open_images
    from nngcd.prediction import predict_with
    from nngcd.training.model import Model

    if out.suffix not in (".csv", ".parquet"):
        raise ConfigError("--out", str(out), "must end in .csv or .parquet")
    if out.exists() and not overwrite:
        raise ConfigError("--out", str(out), "exists already; choose another name or add --overwrite")
    model, categories = Model.load(RunFolder.open(run).model)
    with progress_display(is_quiet=quiet or json) as progress:
        split = open_images(data, dataset=dataset, on_progress=reading(progress))
        table = predict_with(model, categories, split, device=device, workers=workers, progress=progress)
    write_table(out, table)
    counts = table["status"].value_counts()
    if json:
        say_json({"out": str(out), **{str(status): int(n) for status, n in counts.items()}})
        return
    say(f"{len(table)} images: " + ", ".join(f"{n} {status}" for status, n in counts.items()))
    say(f"Written to {out}")
