"""`nngcd embed`: the features of images, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nngcd.cli import shared_options
from nngcd.cli.display import progress_display, reading, say, say_json
from nngcd.core.errors import ConfigError


def embed(  # noqa: PLR0913 (one parameter per flag)
    data: shared_options.Data,
    out: Annotated[Path, typer.Option(help="File to write: .npy or .parquet.")] = Path("features.npy"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
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

    Example:  nngcd embed my_images/ --out features.npy
    """
    from nngcd.core.files import check_outside
    from nngcd.datasets.opening import open_images
    from nngcd.runs.embedding import ENDINGS, check_place, embedding_backbone, write_embeddings

    if out.suffix not in ENDINGS:
        raise ConfigError("--out", str(out), f"must end in {' or '.join(ENDINGS)}")
    if not overwrite:
        check_place(out)
    check_outside(out, data)
    with progress_display(is_quiet=quiet or json) as progress:
        split = open_images(data, dataset=dataset, on_progress=reading(progress))
        if not overwrite:
            check_place(out, split)
        # A data set may set its own image size, as in `nngcd fit`.
        network = embedding_backbone(
            backbone,
            weights=Path(weights) if weights else None,
            image_size=image_size or split.image_size,
            device=device,
        )
        files = write_embeddings(network, split, out, workers=workers, engine=engine or "auto", progress=progress)
    facts = {"images": len(split), "features": network.n_features, "not_used": len(split.problems)}
    if json:
        say_json({"out": [str(path) for path in files], "backbone": backbone, **facts})
        return
    say(f"{len(split)} images, {network.n_features} features each (length 1), by {backbone}")
    if split.problems:
        first = split.problems[0]
        say(f"{len(split.problems)} files were not used, first '{first.file_name}': {first.reason}")
    say(f"Written to {files[0]}" + (f"; the file of each row is in {files[1]}" if len(files) > 1 else ""))
