"""`nngcd predict`: label new images with a finished run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nngcd.cli import parts, shared_options
from nngcd.cli.display import progress_display, reading, say, say_json
from nngcd.core.errors import ConfigError, warn
from nngcd.core.words import count

if TYPE_CHECKING:
    from nngcd.core.progress import Progress
    from nngcd.data.sources import Source
    from nngcd.runs.prediction import Sorter

OUT_HELP = "Table to write (.csv or .parquet), or a folder for parts (also s3://..., gs://...)."
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
    out: Annotated[str, typer.Option(help=OUT_HELP)] = "predictions.csv",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the table if it exists.")] = False,
    shard: parts.Shard = None,
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

    Takes any number of images. A table appears once it is complete. A folder is written in parts, and a stopped
    command continues where it left off.

    Example:  nngcd predict runs/first new_images/ --out new.csv
    """
    from nngcd.core.files import check_outside
    from nngcd.core.run_folder import RunFolder
    from nngcd.core.run_reading import read_config
    from nngcd.datasets.opening import open_source
    from nngcd.runs.prediction import Sorter, reading_of
    from nngcd.runs.sharded_work import is_folder, share_out

    in_parts = is_folder(out, shard)
    if in_parts:
        parts.refuse_overwrite(out, overwrite=overwrite)
    else:
        _check_table(Path(out), overwrite=overwrite)
    folder = RunFolder.open(run)
    for images in (data, str(read_config(folder).get("data", ""))):
        check_outside(out, images)
    sorter = Sorter.load(
        folder, device=device, workers=workers, engine=engine or "auto", n_alternatives=top, unsure=unsure
    )
    with progress_display(is_quiet=quiet or json) as progress:
        source = open_source(
            data, dataset=dataset, reading=reading_of(folder), use_labels=False, on_progress=reading(progress)
        )
        if in_parts:
            shared = share_out(source, sorter.work(folder), out, shard, progress=progress)
        else:
            counts = _write_table(sorter, source, Path(out), progress)
    if in_parts:
        parts.say_shared(shared, out, is_json=json)
    else:
        _say_table(counts, out, is_calibrated=sorter.confidence.is_calibrated, is_json=json)


def _check_table(out: Path, *, overwrite: bool) -> None:
    if out.suffix not in (".csv", ".parquet"):
        raise ConfigError("--out", str(out), "must end in .csv or .parquet, or be a folder")
    if out.exists() and not overwrite:
        raise ConfigError("--out", str(out), "already exists; choose another name or add --overwrite")


def _write_table(sorter: Sorter, source: Source, out: Path, progress: Progress) -> Counter[str]:
    """Write one table and return how many images have which status, and how many are unlike the training."""
    from nngcd.core.files import table_writer
    from nngcd.runs.prediction import UNLIKE

    counts = Counter[str]()
    with table_writer(out) as add:
        # The first rows, if only of none, say which columns there are.
        add(sorter.no_rows())
        for table, n_unlike in sorter.blocks(source, progress=progress):
            add(table)
            counts.update(table["status"])
            counts[UNLIKE] += n_unlike
    return counts


def _say_table(counts: Counter[str], out: str, *, is_calibrated: bool, is_json: bool) -> None:
    from nngcd.runs.prediction import UNLIKE, unlike_words

    n_unlike = counts.pop(UNLIKE, 0)
    strange = unlike_words(n_unlike, counts.total() - counts["unreadable"])
    if strange:
        warn(strange)
    if is_json:
        by_status = {status: counts[status] for status in MEANING}
        say_json({"out": out, **by_status, UNLIKE: n_unlike, "is_calibrated": is_calibrated})
        return
    for line in _words(counts, n_unlike if strange else 0, is_calibrated=is_calibrated):
        say(line)
    say(f"\nWritten to {out}")


def _words(counts: Counter[str], n_unlike: int, *, is_calibrated: bool) -> list[str]:
    """Return what was found, in plain words."""
    lines = [count(counts.total(), "image")]
    lines += [f"  {counts[status]:>6}  {words}" for status, words in MEANING.items() if counts[status]]
    if n_unlike:
        lines.append(f"  {n_unlike:>6}  of them are unlike any training image: their category is a guess (S03)")
    if not is_calibrated:
        lines.append("The confidence is not calibrated: the run held no labels back.")
    return lines
