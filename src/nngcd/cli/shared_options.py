"""Options and arguments that several commands share: one name, one meaning, one help text."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

import typer

from nngcd.core.errors import ConfigError

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Do not print progress.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Also print the library's log.")]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, as printed by `nngcd fit`.")]
_DATA_HELP = (
    "Folder of images, table (.csv, .parquet), tars, Parquet or Arrow files (also s3://..., gs://...), arrays (.npz), "
    "or a name from `nngcd data list`."
)
Data = Annotated[str, typer.Argument(metavar="DATA", help=_DATA_HELP)]
OptionalData = Annotated[str | None, typer.Argument(metavar="DATA", help=_DATA_HELP)]
Dataset = Annotated[str | None, typer.Option(help="How to read DATA, for example cub. (default: detected)")]
Benchmark = Annotated[str, typer.Argument(metavar="DATASET", help="A benchmark, for example cub, or digits.")]
Root = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Folder with the benchmark's official files.")]
Method = Annotated[
    str | None,
    typer.Option(
        help="nngcd, simgcd, mugcd, gcd, xcon, dccl, pim, cipr, promptcal, infosieve, sptnet, cms, selex, legogcd, "
        "protogcd, debgcd or kmeans. (default: nngcd)"
    ),
]
ImageRoot = Annotated[
    Path | None,
    typer.Option("--root", metavar="FOLDER", help="Where the images are now, if they have moved since the run."),
]
Preset = Annotated[str | None, typer.Option(help="Recipe to start from: default, paper or official.")]
Effort = Annotated[
    str | None, typer.Option(help="quick, normal or full. (default: quick; normal on a GPU with your own --backbone)")
]
BACKBONE_HELP = (
    "efficientnet_lite0, _lite1, _lite2, any timm model, or a pre-training of the paper: "
    "dino, dinov2, mae, ibot, mocov3, sam, deit, deit3, clip, supervised-1k, supervised-22k."
)
Backbone = Annotated[
    str | None, typer.Option(help=f"auto (the best one on this machine, for your own images), {BACKBONE_HELP}")
]
Download = Annotated[
    Literal["ask", "yes", "no"], typer.Option(help="Whether --backbone auto may download a better network.")
]
Weights = Annotated[
    str | None, typer.Option(help="Local backbone weights (.safetensors, .pth), or `random` for a trial.")
]
ImageSize = Annotated[int | None, typer.Option(min=1, help="Side of the crop in pixels.")]
_K_HELP = "Number of categories, known and new together. (default: auto; benchmarks use the published number)"
K = Annotated[str | None, typer.Option("--k", metavar="auto|N|A..B", help=_K_HELP)]
_UNSURE_HELP = "Share of known images to call unsure, from 0 to 1. (default: 0.05; predict: as in the run)"
Unsure = Annotated[float | None, typer.Option(metavar="SHARE", help=_UNSURE_HELP)]
Seeds = Annotated[str, typer.Option(help="Seeds to run, for example 0-2 for a mean and deviation.")]
Smoke = Annotated[bool, typer.Option("--smoke", help="Quick trial: two epochs on about 300 images.")]
Device = Annotated[str, typer.Option(help="Device to compute on: auto, cpu, cuda or mps.")]
OptionalDevice = Annotated[
    str | None, typer.Option(help="Device to compute on: auto, cpu, cuda or mps. (default: auto)")
]
_ENGINE_HELP = "Engine for frozen networks: auto, torch or openvino. (default: auto)"
Engine = Annotated[str | None, typer.Option(metavar="ENGINE", help=_ENGINE_HELP)]
Workers = Annotated[
    int | None, typer.Option(min=0, help="Processes or threads that read images. (default: one per core)")
]
Cache = Annotated[
    Path | None,
    typer.Option(help="Folder that keeps views for later runs. (default: your user cache; see `nngcd cache list`)"),
]

Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any setting, for example training.epochs=50."),
]

COLUMNS_HELP = "Column names of a table, for example file_name=Bild,label=Art."
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
        raise ConfigError("--seeds", text, f"names more than {MAX_SEEDS:,} seeds, and each one is a run; name fewer")
    seeds = list(dict.fromkeys(chain.from_iterable(ranges)))
    if not seeds:
        raise ConfigError("--seeds", text, "is not a list of seeds; write 0-2 or 0,1,2")
    return seeds
