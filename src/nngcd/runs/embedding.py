"""Features only: what a backbone makes of images, written while they are read, so memory does not grow with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from nngcd.backbones import load_backbone
from nngcd.backbones.backbone import Backbone, frozen
from nngcd.backbones.engines import USUAL, choose_engine
from nngcd.core.atomic import atomic, closing, mapped_array, writing
from nngcd.core.device import choose_device, choose_precision, choose_workers
from nngcd.core.errors import ConfigError, DataError
from nngcd.core.files import write_table
from nngcd.core.progress import Progress
from nngcd.data.split import Split
from nngcd.training.extraction import centre_features
from nngcd.training.model import move

ENDINGS = (".npy", ".parquet")
ROWS = ["file_name", "image_id"]
"""Columns of the table that comes with a `.npy` file."""
ROWS_PER_GROUP = 4096


def embedding_backbone(
    name: str, *, weights: Path | None = None, image_size: int | None = None, device: str = "auto"
) -> Backbone:
    """Return a backbone whose features have length 1: what all of nngcd compares is their direction."""
    place = choose_device(device)
    backbone = frozen(load_backbone(name, weights=weights, image_size=image_size), scale=1.0)
    return move(backbone, place, choose_precision("auto", place))


def write_embeddings(
    backbone: Backbone,
    split: Split,
    path: Path,
    *,
    workers: int | None = None,
    engine: str = USUAL,
    progress: Progress | None = None,
) -> list[Path]:
    """Write the features of a split's images and return the files: `.npy` with a `.csv` of its rows, or `.parquet`.

    Raises:
        ConfigError: the name has another ending.
        DataError: the data are features already.
    """
    if path.suffix not in ENDINGS:
        raise ConfigError("--out", str(path), f"must end in {' or '.join(ENDINGS)}")
    if split.images is None:
        raise DataError(f"'{split.name}' already holds features; give images instead.")
    choose_engine(engine, backbone, n_images=len(split))
    found = centre_features(
        backbone, split.images, n_workers=choose_workers(workers), progress=progress or Progress()
    )  # fmt: skip
    if path.suffix == ".parquet":
        _write_parquet(path, split, found, backbone.n_features)
        return [path]
    _write_npy(path, split, found, backbone.n_features)
    return [path, path.with_suffix(".csv")]


def check_place(path: Path, split: Split | None = None) -> None:
    """Refuse to replace a file; rows that the same command wrote before an interruption do not count.

    Args:
        path: where the features will go.
        split: the images; before they are read, only the file of the features is looked for.

    Raises:
        ConfigError: a file is there.
    """
    rows, taken = path.with_suffix(".csv"), path if path.exists() else None
    if split is not None and path.suffix == ".npy" and rows.exists() and not _holds(rows, split.table[ROWS]):
        taken = rows
    if taken:
        raise ConfigError("--out", str(path), f"{taken} already exists; choose another name or add --overwrite")


def _holds(path: Path, rows: pd.DataFrame) -> bool:
    try:
        return path.read_text(encoding="utf-8") == rows.to_csv(index=False)
    except (OSError, ValueError):
        return False


def _write_npy(path: Path, split: Split, features: Iterable[Tensor], n_features: int) -> None:
    with atomic(path) as temporary:
        array = mapped_array(path, temporary, np.float32, (len(split), n_features))
        row = 0
        for features_bd in features:
            array[row : row + len(features_bd)] = features_bd.float().cpu().numpy()
            row += len(features_bd)
        with writing(path):
            array.flush()
        # Before the features get their name: `check_place` knows the rows again, so that the command can be repeated.
        write_table(path.with_suffix(".csv"), split.table[ROWS])


def _write_parquet(path: Path, split: Split, features: Iterable[Tensor], n_features: int) -> None:
    schema = pa.schema(
        [("file_name", pa.string()), ("image_id", pa.string()), ("feature", pa.list_(pa.float32(), n_features))]
    )
    row = 0
    with atomic(path) as temporary, closing(path, _parquet_writer(path, temporary, schema)) as writer:
        for features_bd in _grouped(features):
            named = split.table.iloc[row : row + len(features_bd)]
            values = pa.array(features_bd.float().cpu().numpy().reshape(-1), pa.float32())
            columns = [
                pa.array(named["file_name"].tolist(), pa.string()),
                pa.array(named["image_id"].tolist(), pa.string()),
                pa.FixedSizeListArray.from_arrays(values, n_features),
            ]
            with writing(path):
                writer.write_table(pa.table(columns, schema=schema))
            row += len(features_bd)


def _parquet_writer(path: Path, temporary: Path, schema: pa.Schema) -> pq.ParquetWriter:
    with writing(path):
        return pq.ParquetWriter(temporary, schema)


def _grouped(features: Iterable[Tensor]) -> Iterator[Tensor]:
    """Yield the same rows in large groups: a Parquet file of many small ones is slow to read."""
    waiting: list[Tensor] = []
    for features_bd in features:
        waiting.append(features_bd)
        if sum(map(len, waiting)) >= ROWS_PER_GROUP:
            yield torch.cat(waiting)
            waiting = []
    if waiting:
        yield torch.cat(waiting)
