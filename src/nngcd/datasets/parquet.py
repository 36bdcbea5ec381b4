"""Parquet files of images, of features (as `nngcd embed` writes them) or of paths, here or in a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nngcd.core.errors import DataError
from nngcd.core.places import Place
from nngcd.core.progress import OnProgress
from nngcd.data.arrow_pieces import Piece, Pieces
from nngcd.data.packed_files import files_of
from nngcd.data.reading_settings import DEFAULT, ReadingSettings
from nngcd.data.sources import IMAGES_PER_READ, Source
from nngcd.data.split import Split, Truth

FOOTERS_AT_A_TIME = 16
_FEATURE = "feature"


def source(root: str | Path, reading: ReadingSettings = DEFAULT, *, use_labels: bool = True) -> Source:
    """Return the rows of Parquet files; one row group, or a few small ones, is one unit."""
    return _pieces(str(root), reading).source(reading, use_labels=use_labels)


def load(
    root: str | Path | None,
    *,
    reading: ReadingSettings = DEFAULT,
    use_labels: bool = True,
    on_progress: OnProgress | None = None,
) -> tuple[Split, Truth | None]:
    """Return the images or features of a folder of Parquet files, a pattern or one file, in memory."""
    if root is None:
        raise DataError("D01: the dataset 'parquet' needs the path of a folder of Parquet files.")
    return _pieces(str(root), reading).split(reading, use_labels=use_labels, on_progress=on_progress), None


def _pieces(data: str, reading: ReadingSettings) -> Pieces:
    files = files_of(data, "parquet")
    with ThreadPoolExecutor(FOOTERS_AT_A_TIME) as pool:
        footers = list(pool.map(_footer, files))
    pieces = [piece for file, footer in zip(files, footers, strict=True) for piece in _of_file(file, footer)]
    schema = footers[0].schema.to_arrow_schema()
    if (features := _features_beside(files[0])) is not None:
        schema = schema.append(pa.field(_FEATURE, pa.list_(pa.float16(), features.shape[1])))
    return Pieces.of(data, pieces, schema, reading)


def _footer(file: Place) -> pq.FileMetaData:
    try:
        with file.open() as opened:
            return pq.read_metadata(opened)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(file, error) from error


def _of_file(file: Place, footer: pq.FileMetaData) -> Iterator[Piece]:
    """Yield groups of a file's row groups with as many rows as are read at a time, or more."""
    groups, n_rows, start = list[int](), 0, 0
    for group in range(footer.num_row_groups):
        groups.append(group)
        n_rows += footer.row_group(group).num_rows
        if n_rows >= IMAGES_PER_READ or group == footer.num_row_groups - 1:
            name = f"{file.name} rows {start} to {start + n_rows} of {footer.num_rows}"
            yield Piece(file, name, n_rows, start, partial(_read, file, tuple(groups), start))
            groups, n_rows, start = [], 0, start + n_rows


def _read(
    file: Place, groups: tuple[int, ...], start: int, columns: list[str], rows_per_read: int
) -> Iterator[pa.Table]:
    features = _features_beside(file)
    wanted = columns if features is None else [name for name in columns if name != _FEATURE]
    try:
        with file.open() as opened:
            table = pq.ParquetFile(opened, page_checksum_verification=True)
            for batch in table.iter_batches(rows_per_read, row_groups=list(groups), columns=wanted):
                some = pa.Table.from_batches([batch])
                if features is not None:
                    values = pa.array(features[start : start + len(some)].reshape(-1))
                    column = pa.FixedSizeListArray.from_arrays(values, features.shape[1])
                    some = some.append_column(_FEATURE, column)
                start += len(some)
                yield some
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(file, error) from error


def _features_beside(file: Place) -> NDArray[Any] | None:
    """Return the features that `nngcd embed --format npy` wrote next to the table of their rows."""
    place = Place.of(f"{file.text.removesuffix('.parquet')}.npy")
    if not place.is_file():
        return None
    try:
        if place.local is not None:
            mapped: NDArray[Any] = np.load(place.local, mmap_mode="r", allow_pickle=False)
            return mapped
        fetched: NDArray[Any] = np.load(BytesIO(place.read()), allow_pickle=False)
        return fetched
    except (OSError, ValueError) as error:
        raise _unreadable(place, error) from error


def _unreadable(file: Place, error: Exception) -> DataError:
    return DataError(f"D17: '{file.text}' cannot be read ({' '.join(str(error).split())[:200]}). Make it again.")
