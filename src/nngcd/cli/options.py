"""Options that several commands share: one name, one meaning, one help text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Also print what the library logs.")]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, as printed by `nngcd fit`.")]
_DATA_HELP = "Folder of images, manifest (.csv, .parquet), arrays (.npz), or a name: digits."
Data = Annotated[str, typer.Argument(metavar="DATA", help=_DATA_HELP)]
OptionalData = Annotated[str | None, typer.Argument(metavar="DATA", help=_DATA_HELP)]
Dataset = Annotated[
    str | None, typer.Option(help="How to read DATA, for example cub; found out by itself for folders.")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Workers = Annotated[int | None, typer.Option(min=0, help="Image-reading processes. (default: one per core)")]
Cache = Annotated[
    Path | None,
    typer.Option(help="Where features are kept for later runs. (default: .nngcd-cache beside the run folder)"),
]

Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any setting, for example training.epochs=50."),
]


def seed_range(text: str) -> list[int]:
    """Return the seeds of `0-2`, `0,3,5` or `7`."""
    try:
        parts = [part.split("-", 1) for part in text.split(",")]
        seeds = [seed for part in parts for seed in range(int(part[0]), int(part[-1]) + 1)]
    except ValueError:
        seeds = []
    if not seeds:
        raise typer.BadParameter(f"{text!r} is no list of seeds; write 0-2 or 0,1,2")
    return seeds
