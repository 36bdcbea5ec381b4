"""Tables of images or features in pieces: as a source that is streamed, or as a `Split` that training reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nngcd.core.errors import DataError
from nngcd.core.places import Place
from nngcd.core.progress import OnProgress
from nngcd.data.arrow_columns import Columns, contents_of, features_of, labels_of, names_of, rows_of_table
from nngcd.data.packed_splits import label_lookup, refuse_if_too_large, split_of_features, split_of_pack
from nngcd.data.packs import ColumnPack
from nngcd.data.reading_settings import ReadingSettings
from nngcd.data.sources import FEATURES_PER_READ, IMAGES_PER_READ, Rows, Source, Unit
from nngcd.data.split import Split
from nngcd.data.strata import draw


class Piece(NamedTuple):
    """Rows of one file that are read together: one unit of work."""

    file: Place
    name: str
    n_rows: int | None
    """None where only reading tells."""
    start: int
    """The number of its first row in the file."""
    read: Callable[[list[str], int], Iterator[pa.Table]]
    """Yields tables of some columns, with at most so many rows each."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """All pieces of some data, and which column holds what."""

    data: str
    pieces: Sequence[Piece]
    columns: Columns
    folder: Place
    """The folder that paths in the table are relative to."""

    @classmethod
    def of(cls, data: str, pieces: Sequence[Piece], schema: pa.Schema, reading: ReadingSettings) -> Pieces:
        """Return the pieces with their columns."""
        columns = Columns.of(schema, data, reading.column_of)
        file = pieces[0].file
        folder = Place.of(file.text.rpartition("/")[0] or ".")
        found = cls(data, pieces, columns, Place.of(reading.image_root) if reading.image_root else folder)
        if columns.content == "features" and columns.n_features is None:
            first = next((table for _, _, table in found.tables() if len(table)), None)
            if first is None:
                raise DataError(f"D02: '{data}' has no rows.")
            return replace(found, columns=replace(columns, n_features=len(first[columns.of_content][0])))
        return found

    @property
    def rows_per_read(self) -> int:
        """The most rows that are in memory at a time."""
        return FEATURES_PER_READ if self.columns.content == "features" else IMAGES_PER_READ

    def tables(self) -> Iterator[tuple[Piece, int, pa.Table]]:
        """Yield all tables, each with its piece and the number of its first row in the file."""
        for piece in self.pieces:
            start = piece.start
            for table in piece.read(self.columns.needed, self.rows_per_read):
                yield piece, start, table
                start += len(table)

    def source(self, reading: ReadingSettings, *, use_labels: bool) -> Source:
        """Return the rows as a source."""
        units = [
            Unit(piece.name, partial(self._rows, piece, reading, use_labels=use_labels), piece.n_rows)
            for piece in self.pieces
        ]
        return Source(Place.of(self.data).name, units, self.columns.n_features)

    def split(self, reading: ReadingSettings, *, use_labels: bool, on_progress: OnProgress | None) -> Split:
        """Return the rows as data that training reads; all are in memory, or mapped into it.

        Raises:
            DataError: the table lists files, or an image appears twice.
            ResourceError: features do not fit into memory.
        """
        if self.columns.content == "paths":
            raise DataError(
                f"D33: '{self.data}' lists image files; to train on them, give one table on this machine. Join the "
                f"tables, or compute features first: nngcd embed DATA --out features/"
            )
        if reading.sample and self.columns.content == "features":
            return self._sample(reading.sample, reading, use_labels=use_labels)
        names, ids, labels = list[str](), list[str](), list[str | None]()
        contents, features = list[pa.ChunkedArray](), list[NDArray[np.float32]]()
        if self.columns.n_features is not None:
            n_rows = sum(piece.n_rows or 0 for piece in self.pieces)
            refuse_if_too_large(n_rows, self.columns.n_features, self.data)
        for piece, start, table in self.tables():
            own = names_of(table, self.columns, where=piece.file.name, start=start)
            names += own
            labels += (labels_of(table, self.columns) if use_labels else None) or [None] * len(table)
            if self.columns.content == "features":
                ids += table[self.columns.ids].to_pylist() if self.columns.ids else own
                features.append(features_of(table, self.columns, piece.file.text))
            else:
                contents += contents_of(table, self.columns).chunks
        if not names:
            raise DataError(f"D02: '{self.data}' has no rows.")
        _refuse_twice(ids or names, self.data)
        name = Place.of(self.data).name
        if features:
            return split_of_features(np.concatenate(features), names, ids, labels, name=name, reading=reading)
        pack = ColumnPack(pa.chunked_array(contents), {name: row for row, name in enumerate(names)})
        return split_of_pack(pack, names, labels, name=name, reading=reading, on_progress=on_progress)

    def _sample(self, n: int, reading: ReadingSettings, *, use_labels: bool) -> Split:
        source = self.source(reading, use_labels=use_labels)
        drawn = draw(source, n, label_lookup(reading))
        _refuse_twice(drawn.ids, self.data)
        return split_of_features(
            drawn.features_nd, drawn.names, drawn.ids, drawn.labels, name=source.name,
            reading=replace(reading, labels=None),
        )  # fmt: skip

    def _rows(self, piece: Piece, reading: ReadingSettings, *, use_labels: bool) -> Iterator[Rows]:
        start = piece.start
        for table in piece.read(self.columns.needed, self.rows_per_read):
            yield rows_of_table(
                table, self.columns, where=piece.file.name, start=start, folder=self.folder, decoding=reading.decoding,
                use_labels=use_labels,
            )  # fmt: skip
            start += len(table)


def _refuse_twice(names: Sequence[str], data: str) -> None:
    if len(set(names)) < len(names):
        seen = set[str]()
        twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise DataError(f"D14: '{twice}' appears twice in '{data}'. Every image may be listed once.")
