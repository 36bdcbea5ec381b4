"""`nngcd embed`: the features of images, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nngcd.cli import parts, shared_options
from nngcd.cli.display import progress_display, reading, say, say_json
from nngcd.core.errors import ConfigError

if TYPE_CHECKING:
    from nngcd.backbones.backbone import Backbone
    from nngcd.runs.embedding import Embedded


OUT_HELP = "File to write (.npy or .parquet), or a folder for parts (also s3://..., gs://...)."
FORMAT_HELP = "Format of the parts: parquet, or npy with a table of the rows next to each."


def embed(  # noqa: PLR0913 (one parameter per flag)
    data: shared_options.Data,
    out: Annotated[str, typer.Option(help=OUT_HELP)] = "features.npy",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
    shard: parts.Shard = None,
    part_format: Annotated[Literal["parquet", "npy"], typer.Option("--format", help=FORMAT_HELP)] = "parquet",
    dataset: shared_options.Dataset = None,
    backbone: Annotated[str, typer.Option(help=shared_options.BACKBONE_HELP)] = "efficientnet_lite0",
    weights: shared_options.Weights = None,
    image_size: shared_options.ImageSize = None,
    device: shared_options.Device = "auto",
    engine: shared_options.Engine = None,
    workers: shared_options.Workers = None,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
) -> None:
    """Compute the features of the images of DATA with a backbone, without training or sorting.

    A file holds them in single precision, a folder in parts of half precision. A stopped command continues with the
    missing parts.

    Example:  nngcd embed my_images/ --out features.npy
    """
    from nngcd.core.files import check_outside
    from nngcd.datasets.opening import open_source
    from nngcd.runs.embedding import ENDINGS, Features, check_place, embedding_backbone, write_embeddings
    from nngcd.runs.sharded_work import is_folder, share_out

    in_parts = is_folder(out, shard)
    if in_parts:
        parts.refuse_overwrite(out, overwrite=overwrite)
    elif Path(out).suffix not in ENDINGS:
        raise ConfigError("--out", out, f"must end in {' or '.join(ENDINGS)}, or be a folder")
    elif not overwrite:
        check_place(Path(out))
    check_outside(out, data)
    with progress_display(is_quiet=quiet or json) as progress:
        source = open_source(data, dataset=dataset, on_progress=reading(progress))
        # A data set may set its own image size, as in `nngcd fit`.
        network = embedding_backbone(
            backbone,
            weights=Path(weights) if weights else None,
            image_size=image_size or source.image_size,
            device=device,
        )
        features = Features(network, workers, engine or "auto")
        if in_parts:
            shared = share_out(source, features.work(part_format=part_format), out, shard, progress=progress)
        else:
            done = write_embeddings(features, source, Path(out), progress=progress)
    if in_parts:
        parts.say_shared(shared, out, is_json=json)
    else:
        _say_file(done, network, backbone, is_json=json)


def _say_file(done: Embedded, network: Backbone, backbone: str, *, is_json: bool) -> None:
    facts = {"images": done.n_rows, "features": network.n_features, "not_used": len(done.problems)}
    if is_json:
        say_json({"out": [str(path) for path in done.files], "backbone": backbone, **facts})
        return
    say(f"{done.n_rows} images, {network.n_features} features each (length 1), by {backbone}")
    if done.problems:
        first = done.problems[0]
        say(f"{len(done.problems)} files were not used, first '{first.file_name}': {first.reason}")
    others = f"; the file of each row is in {done.files[1]}" if len(done.files) > 1 else ""
    say(f"Written to {done.files[0]}{others}")
