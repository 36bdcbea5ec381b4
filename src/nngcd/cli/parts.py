"""Options and words of commands that write parts: `nngcd embed`, `nngcd predict` and `nngcd merge`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nngcd.cli import shared_options
from nngcd.cli.display import progress_display, say, say_json
from nngcd.core.cores import n_launched
from nngcd.core.errors import ConfigError, warn
from nngcd.core.words import argument, count

if TYPE_CHECKING:
    from nngcd.runs.merging import Merged
    from nngcd.runs.sharded_work import Shared

SHARD_HELP = (
    "This process's share of the work, 0/4 to 3/4 for example, or auto (torchrun, SLURM). Needs a folder as --out."
)
Shard = Annotated[str | None, typer.Option("--shard", metavar="I/N", help=SHARD_HELP)]
Parts = Annotated[str, typer.Argument(metavar="OUT", help="Folder of parts that `embed` or `predict` wrote.")]
OneFile = Annotated[Path | None, typer.Option(help="Also write all rows as one table: .csv or .parquet.")]


def merge(
    parts: Parts, out: OneFile = None, json: shared_options.Json = False, quiet: shared_options.Quiet = False
) -> None:
    """Check that all parts in OUT are there, count them, and write the manifest that makes them one data set.

    Example:  nngcd merge predicted/ --out predicted.csv
    """
    from nngcd.core.places import Place
    from nngcd.runs.merging import merge as merge_parts
    from nngcd.runs.merging import write_one_file

    place = Place.of(parts)
    with progress_display(is_quiet=quiet or json) as progress:
        merged = merge_parts(place, progress=progress)
        if out:
            write_one_file(place, merged, out)
    say_merged(merged, parts, is_json=json)
    say("" if out is None else f"All rows are in {out}", is_quiet=json or out is None)


def refuse_overwrite(out: str, *, overwrite: bool) -> None:
    """Refuse to replace a folder of parts, which the same command completes instead."""
    if overwrite:
        raise ConfigError("--overwrite", out, "is for one file; delete the folder yourself to compute it again")


def say_shared(shared: Shared, out: str, *, is_json: bool) -> None:
    """Say what a process wrote, and what to do next."""
    if shared.merged is not None:
        say_merged(shared.merged, out, is_json=is_json)
        return
    written = shared.written
    if is_json:
        say_json({"out": out, "shard": str(written.shard), "written": written.n_written, "there": written.n_there,
                  "missing": shared.n_missing, **written.counts})  # fmt: skip
        return
    there = f", {written.n_there} were there already" if written.n_there else ""
    say(f"shard {written.shard}: {count(written.n_written, 'part')} written{there}")
    if n_launched() > 1 and written.shard.count == n_launched():
        return  # the first process merges
    if shared.n_missing:
        say(f"{shared.n_missing} of {written.n_units} parts are still missing; other shards write them")
    when = "When all are there:" if shared.n_missing else f"All {written.n_units} parts are there. Next:"
    say(f"{when}  nngcd merge {argument(out)}")


def say_merged(merged: Merged, out: str, *, is_json: bool) -> None:
    """Say what a folder of parts holds."""
    from nngcd.runs.prediction import UNLIKE, unlike_words

    counts = dict(sorted(merged.counts.items()))
    n_seen = merged.n_rows - counts.get("unreadable", 0) if merged.plan.command == "predict" else merged.n_rows
    if strange := unlike_words(counts.get(UNLIKE, 0), n_seen):
        warn(strange)
    if is_json:
        facts: dict[str, Any] = {"out": out, "parts": merged.plan.n_units, "rows": merged.n_rows, **counts}
        say_json(facts)
        return
    say(f"{merged.n_rows:,} rows in {merged.plan.n_units:,} parts")
    for name, number in counts.items():
        say(f"  {number:>9,}  {name.replace('_', ' ')}", is_quiet=not number)
    if merged.problems:
        first = merged.problems[0]
        say(f"First that could not be read: '{first.file_name}': {first.reason}")
    say(f"Complete: {out} ({out.rstrip('/')}/_manifest.json lists its parts)")
