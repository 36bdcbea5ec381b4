"""A Hugging Face data set as `save_to_disk` writes it: Arrow files in a folder, mapped into memory, not loaded."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from nngcd.core.errors import DataError
from nngcd.core.places import Place
from nngcd.core.progress import OnProgress
from nngcd.data.arrow_pieces import Piece, Pieces
from nngcd.data.packed_files import files_of
from nngcd.data.reading_settings import DEFAULT, ReadingSettings
from nngcd.data.sources import Source
from nngcd.data.split import Split, Truth


def source(root: str | Path, reading: ReadingSettings = DEFAULT, *, use_labels: bool = True) -> Source:
    """Return the rows of a data set; one Arrow file is one unit."""
    return _pieces(str(root), reading).source(reading, use_labels=use_labels)


def load(
    root: str | Path | None,
    *,
    reading: ReadingSettings = DEFAULT,
    use_labels: bool = True,
    on_progress: OnProgress | None = None,
) -> tuple[Split, Truth | None]:
    """Return the images of a data set on disk: one split, such as `train`, that `save_to_disk` wrote."""
    if root is None:
        raise DataError("D01: the dataset 'huggingface' needs the path of a folder that `save_to_disk` wrote.")
    return _pieces(str(root), reading).split(reading, use_labels=use_labels, on_progress=on_progress), None


def _pieces(data: str, reading: ReadingSettings) -> Pieces:
    files = files_of(data, "huggingface")
    pieces = [Piece(file, file.name, None, 0, partial(_read, file)) for file in files]
    with _opened(files[0]) as stream:
        schema = stream.schema
    return Pieces.of(data, pieces, schema, reading)


def _read(file: Place, columns: list[str], rows_per_read: int) -> Iterator[pa.Table]:
    try:
        with _opened(file) as stream:
            for batch in stream:
                table = pa.Table.from_batches([batch]).select(columns)
                for start in range(0, len(table), rows_per_read):
                    yield table.slice(start, rows_per_read)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(file, error) from error


def _opened(file: Place) -> Any:  # noqa: ANN401 (pyarrow has no types)
    try:
        return pa.ipc.open_stream(file.open())
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Place, error: Exception) -> DataError:
    return DataError(
        f"D17: '{file.text}' cannot be read as Arrow ({' '.join(str(error).split())[:200]}). Save it again."
    )
