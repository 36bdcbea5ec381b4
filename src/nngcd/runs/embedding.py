"""Features only: what a backbone makes of images, written while they are read, so memory does not grow with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from nngcd.backbones import load_backbone
from nngcd.backbones.backbone import Backbone, frozen
from nngcd.backbones.engines import USUAL, choose_engine
from nngcd.core.atomic import atomic, closing, writing
from nngcd.core.device import choose_device, choose_precision, choose_workers
from nngcd.core.errors import ConfigError, DataError
from nngcd.core.files import table_writer
from nngcd.core.growing_npy import GrowingNpy
from nngcd.core.places import Place
from nngcd.core.progress import Progress
from nngcd.data.sources import Rows, Source
from nngcd.data.split import Problem
from nngcd.runs.parts import FEATURE, Made, Work, features_of_column, parquet_writer
from nngcd.runs.prediction import MANY_IMAGES
from nngcd.training.model import move
from nngcd.training.passing import LABEL, pass_rows
from nngcd.training.prefetch import prefetched

ENDINGS = (".npy", ".parquet")
ROWS = ["file_name", "image_id", LABEL]
"""Columns of the table that comes with a `.npy` file."""
ROWS_PER_GROUP = 4096
PartFormat = Literal["parquet", "npy"]


def embedding_backbone(
    name: str, *, weights: Path | None = None, image_size: int | None = None, device: str = "auto"
) -> Backbone:
    """Return a backbone whose features have length 1: what all of nngcd compares is their direction."""
    place = choose_device(device)
    backbone = frozen(load_backbone(name, weights=weights, image_size=image_size), scale=1.0)
    return move(backbone, place, choose_precision("auto", place))


@dataclass(frozen=True, slots=True)
class Features:
    """A backbone that computes features of rows."""

    backbone: Backbone
    workers: int | None = None
    """Threads that read images; one per core when absent."""
    engine: str = USUAL

    def prepare(self, source: Source, engine: str | None = None) -> str:
        """Choose the engine for a source, or take a given one, and return its name."""
        if source.n_features is not None:
            raise DataError(f"'{source.name}' already holds features; give images instead.")
        n_images = MANY_IMAGES if source.n_rows is None else source.n_rows
        choose_engine(engine or self.engine, self.backbone, n_images=n_images)
        return self.backbone.trunk.engine

    def schema(self, dtype: pa.DataType) -> pa.Schema:
        """Return the columns of a table of features."""
        text = [(name, pa.string()) for name in ROWS]
        return pa.schema([*text, (FEATURE, pa.list_(dtype, self.backbone.n_features))])

    def table(self, rows: Rows, schema: pa.Schema, progress: Progress | None = None) -> Made:
        """Return the features of some rows."""
        n_workers = choose_workers(self.workers)
        named, features_nd, problems = pass_rows(self.backbone, rows, n_workers=n_workers, progress=progress)
        of_row = schema.field(FEATURE).type
        # In single precision first: a processor's bfloat16 has no numpy.
        values = features_nd.float().cpu().numpy().astype(of_row.value_type.to_pandas_dtype()).reshape(-1)
        columns = [pa.array(named[name] if name in named else [None] * len(named), pa.string()) for name in ROWS]
        columns.append(pa.FixedSizeListArray.from_arrays(pa.array(values, of_row.value_type), of_row.list_size))
        return Made(pa.table(columns, schema=schema), {"images": len(named), "unreadable": len(problems)}, problems)

    def work(self, *, part_format: PartFormat = "parquet") -> Work:
        """Return embedding as work that is done in parts, in half precision."""
        schema = self.schema(pa.float16())
        facts = {
            "backbone": self.backbone.name,
            "weights": self.backbone.fingerprint,
            "image_size": self.backbone.preprocessing.image_size,
            "format": part_format,
        }

        def do(rows: Rows, progress: Progress) -> Made:
            return self.table(rows, schema, progress)

        return Work(
            command="embed", facts=facts, schema=schema, do=do, set_engine=self.prepare, is_npy=part_format == "npy"
        )  # fmt: skip


@dataclass(slots=True)
class Embedded:
    """Files with features, the number of their rows, and what could not be read."""

    files: list[Path]
    n_rows: int = 0
    problems: list[Problem] = field(default_factory=list)


def write_embeddings(features: Features, source: Source, path: Path, *, progress: Progress | None = None) -> Embedded:
    """Write the features of a source's images in single precision: `.npy` with a `.csv` of its rows, or `.parquet`."""
    if path.suffix not in ENDINGS:
        raise ConfigError("--out", str(path), f"must end in {' or '.join(ENDINGS)}")
    progress = progress or Progress()
    features.prepare(source)
    done = Embedded([path] if path.suffix == ".parquet" else [path, path.with_suffix(".csv")])
    schema = features.schema(pa.float32())
    with ExitStack() as stack:
        if path.suffix == ".parquet":
            add, _ = stack.enter_context(parquet_writer(Place.of(path), schema))
        else:
            add = _npy_adder(path, schema, stack)
        progress.start("features", source.n_rows or 0)
        for table in _grouped(_tables(features, source, schema, done, progress)):
            add(table)
        progress.finish()
    return done


def check_place(path: Path) -> None:
    """Refuse to replace a file."""
    files = [path, path.with_suffix(".csv")] if path.suffix == ".npy" else [path]
    for taken in files:
        if taken.exists():
            raise ConfigError("--out", str(path), f"{taken} already exists; choose another name or add --overwrite")


def _tables(
    features: Features, source: Source, schema: pa.Schema, done: Embedded, progress: Progress
) -> Iterator[pa.Table]:
    for unit in source.units:
        for rows in prefetched(unit.read()):
            table, _, problems = features.table(rows, schema, progress)
            done.problems += problems
            done.n_rows += len(table)
            yield table


def _npy_adder(path: Path, schema: pa.Schema, stack: ExitStack) -> Callable[[pa.Table], None]:
    # The rows get their name first: features without rows say nothing.
    temporary = stack.enter_context(atomic(path))
    add_rows = stack.enter_context(table_writer(path.with_suffix(".csv")))
    with writing(path):
        file = GrowingNpy(temporary, schema.field(FEATURE).type.list_size, np.float32)
    stack.enter_context(closing(path, file))

    def add(table: pa.Table) -> None:
        add_rows(table.select(ROWS).to_pandas())
        with writing(path):
            file.add(features_of_column(table[FEATURE]))

    return add


def _grouped(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield the same rows in large groups: a Parquet file of many small ones is slow to read."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(map(len, waiting)) >= ROWS_PER_GROUP:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)
