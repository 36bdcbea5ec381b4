"""`nngcd predict`: label new images with a finished run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from nngcd.cli import shared_options
from nngcd.cli.display import progress_display, reading, say, say_json
from nngcd.core.errors import ConfigError, warn

TOP_HELP = "Number of further candidate categories to list for each image."
MEANING = {
    "known": "belong to a known category",
    "new": "belong to a category that the run discovered",
    "unsure": "are unsure: the category is a guess (change with --unsure)",
    "unreadable": "could not be read; the table says why",
}
"""The meaning of each status; `--json` counts all of them, even those with no images."""


def predict(  # noqa: PLR0913 (one parameter per flag)
    run: shared_options.Run,
    data: shared_options.Data,
    out: Annotated[Path, typer.Option(help="Table to write: .csv or .parquet.")] = Path("predictions.csv"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the table if it exists.")] = False,
    dataset: shared_options.Dataset = None,
    unsure: shared_options.Unsure = None,
    top: Annotated[int, typer.Option(min=0, help=TOP_HELP)] = 3,
    device: shared_options.Device = "auto",
    engine: shared_options.Engine = None,
    workers: shared_options.Workers = None,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
) -> None:
    """Sort the images of DATA into the categories of a finished run.

    Takes any number of images. The table appears once it is complete.

    Example:  nngcd predict runs/first new_images/ --out new.csv
    """
    import dataclasses

    from nngcd.core.files import check_outside, table_writer
    from nngcd.core.run_folder import RunFolder
    from nngcd.core.run_reading import read_config
    from nngcd.runs.prediction import Predictor, reading_of, stream, unlike_words

    if out.suffix not in (".csv", ".parquet"):
        raise ConfigError("--out", str(out), "must end in .csv or .parquet")
    if out.exists() and not overwrite:
        raise ConfigError("--out", str(out), "already exists; choose another name or add --overwrite")
    folder = RunFolder.open(run)
    for images in (data, str(read_config(folder).get("data", ""))):
        check_outside(out, images)
    predictor = Predictor.load(folder, device=device, workers=workers, engine=engine or "auto")
    confidence = predictor.confidence.with_unsure(unsure)
    predictor = dataclasses.replace(predictor, confidence=confidence, n_alternatives=top)
    counts, n_unlike = Counter[str](), 0
    with progress_display(is_quiet=quiet or json) as progress, table_writer(out) as add:
        blocks = stream(
            predictor, data, dataset=dataset, reading=reading_of(folder), on_progress=reading(progress),
            progress=progress,
        )  # fmt: skip
        for table, n_strange in blocks:
            add(table)
            counts.update(table["status"])
            n_unlike += n_strange
    strange = unlike_words(n_unlike, counts.total() - counts["unreadable"])
    if strange:
        warn(strange)
    if json:
        by_status = {status: counts[status] for status in MEANING}
        say_json({"out": str(out), **by_status, "unlike_training": n_unlike, "is_calibrated": confidence.is_calibrated})
        return
    for line in _words(counts, n_unlike if strange else 0, is_calibrated=confidence.is_calibrated):
        say(line)
    say(f"\nWritten to {out}")


def _words(counts: Counter[str], n_unlike: int, *, is_calibrated: bool) -> list[str]:
    """Return what was found, in plain words."""
    lines = [f"{counts.total()} images"]
    lines += [f"  {counts[status]:>6}  {words}" for status, words in MEANING.items() if counts[status]]
    if n_unlike:
        lines.append(f"  {n_unlike:>6}  of them are unlike any training image: their category is a guess (S03)")
    if not is_calibrated:
        lines.append("The confidence is not calibrated: the run held no labels back.")
    return lines
