"""Options that several commands share: one name, one meaning, one help text."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from nngcd.core.errors import ConfigError

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Also print what the library logs.")]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, as printed by `nngcd fit`.")]
_DATA_HELP = "Folder of images, table (.csv, .parquet), arrays (.npz), or a name from `nngcd data list`."
Data = Annotated[str, typer.Argument(metavar="DATA", help=_DATA_HELP)]
OptionalData = Annotated[str | None, typer.Argument(metavar="DATA", help=_DATA_HELP)]
Dataset = Annotated[
    str | None, typer.Option(help="How to read DATA, for example cub; found out by itself for folders.")
]
Benchmark = Annotated[str, typer.Argument(metavar="DATASET", help="A benchmark, for example cub, or digits.")]
Root = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where the benchmark's official files lie.")]
Method = Annotated[
    str | None,
    typer.Option(
        help="nngcd, simgcd, mugcd, gcd, xcon, dccl, pim, cipr, promptcal, infosieve, sptnet or kmeans. "
        "(default: nngcd)"
    ),
]
Preset = Annotated[str | None, typer.Option(help="default, paper or official.")]
Effort = Annotated[
    str | None, typer.Option(help="quick, normal or full. (default: quick; normal on a GPU with a backbone of yours)")
]
BACKBONE_HELP = (
    "efficientnet_lite0, _lite1, _lite2, any timm model, or a pre-training of the paper: "
    "dino, dinov2, mae, ibot, mocov3, sam, deit, deit3, clip, supervised-1k, supervised-22k."
)
Backbone = Annotated[str | None, typer.Option(help=BACKBONE_HELP)]
Weights = Annotated[
    str | None, typer.Option(help="Local weights of the backbone (.safetensors, .pth), or `random` to try things out.")
]
ImageSize = Annotated[int | None, typer.Option(min=1, help="Side of the crop in pixels.")]
_K_HELP = "Number of categories, known and new together. (default: auto, or as published for benchmark data sets)"
K = Annotated[str | None, typer.Option("--k", metavar="auto|N|A..B", help=_K_HELP)]
_UNSURE_HELP = "Share of known images that is called unsure, from 0 to 1. (default: 0.05; predict: as the run)"
Unsure = Annotated[float | None, typer.Option(metavar="SHARE", help=_UNSURE_HELP)]
Seeds = Annotated[str, typer.Option(help="Seeds to run, for example 0-2 for mean and deviation.")]
Smoke = Annotated[bool, typer.Option("--smoke", help="Two epochs on some 300 images: does everything run?")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
OptionalDevice = Annotated[str | None, typer.Option(help="auto, cpu, cuda or mps. (default: auto)")]
_ENGINE_HELP = "What computes frozen networks: auto, torch or openvino. (default: auto)"
Engine = Annotated[str | None, typer.Option(metavar="ENGINE", help=_ENGINE_HELP)]
Workers = Annotated[int | None, typer.Option(min=0, help="Image-reading processes. (default: one per core)")]
Cache = Annotated[
    Path | None,
    typer.Option(help="Where views are kept for later runs. (default: your own cache, see `nngcd cache list`)"),
]

Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any setting, for example training.epochs=50."),
]

COLUMNS_HELP = "Columns of a table: file_name=Bild,label=Art."
Columns = Annotated[str | None, typer.Option("--columns", metavar="ROLE=NAME,...", help=COLUMNS_HELP)]


MAX_SEEDS = 1_000


def seed_range(text: str) -> list[int]:
    """Return the seeds of `0-2`, `0,3,5` or `7`."""
    try:
        parts = [part.split("-", 1) for part in text.split(",")]
        ranges = [range(int(part[0]), int(part[-1]) + 1) for part in parts]
    except ValueError:
        ranges = []
    # Counted before they are listed: a list of a billion seeds takes all memory.
    if sum(map(len, ranges)) > MAX_SEEDS:
        raise ConfigError("--seeds", text, f"are more than {MAX_SEEDS:,} seeds; a run is made for each")
    seeds = list(dict.fromkeys(chain.from_iterable(ranges)))
    if not seeds:
        raise ConfigError(
            "--seeds", text, "is no list of seeds, the smallest first and none below 0; write 0-2 or 0,1,2"
        )
    return seeds
