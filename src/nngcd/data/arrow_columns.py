"""Arrow tables of images or features, as Parquet files and Hugging Face data sets hold them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
from numpy.typing import NDArray

from nngcd.core.errors import DataError
from nngcd.core.places import Place
from nngcd.data.csv_rows import inside
from nngcd.data.decoding import Decoding
from nngcd.data.sources import Rows, encoded

FEATURE_NAMES = ("feature", "features", "embedding")
_CONTENT_NAMES = ("image", "img", "bytes", "content", "jpg", "jpeg", "png", "webp")
Content = Literal["images", "paths", "features"]


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column of a table holds what."""

    content: Content
    of_content: str
    names: str | None
    """Names of the images; None where they are numbered."""
    ids: str | None
    label: str | None
    label_names: tuple[str, ...] = ()
    """Names of numbered labels, where the table says them."""
    n_features: int | None = None

    @classmethod
    def of(cls, schema: pa.Schema, where: str, column_of: Mapping[str, str]) -> Columns:
        """Return the columns of a table.

        Raises:
            DataError: the table holds neither images, paths nor features.
        """
        names = column_of["file_name"] if column_of["file_name"] in schema.names else None
        label = column_of["label"] if column_of["label"] in schema.names else None
        ids = "image_id" if "image_id" in schema.names else None
        found: tuple[Content, str]
        if feature := _first(schema, FEATURE_NAMES, _is_vector):
            found = ("features", feature)
        elif image := _image_column(schema):
            found = ("images", image)
        elif names:
            found = ("paths", names)
        else:
            raise DataError(
                f"D17: '{where}' has no column of image bytes, of features or '{column_of['file_name']}' "
                f"(found: {', '.join(schema.names)}). Name the columns, for example --columns file_name=path"
            )
        content, of_content = found
        kind = schema.field(of_content).type
        n_features = kind.list_size if content == "features" and kinds.is_fixed_size_list(kind) else None
        return cls(content, of_content, names, ids, label, _label_names(schema, label), n_features)

    @property
    def needed(self) -> list[str]:
        """The columns that are read."""
        return list(dict.fromkeys(name for name in (self.of_content, self.names, self.ids, self.label) if name))


def holds_content(schema: pa.Schema) -> bool:
    """Return whether a table holds images or features, not only the names of files."""
    return bool(_first(schema, FEATURE_NAMES, _is_vector) or _image_column(schema))


def rows_of_table(  # noqa: PLR0913 (what a row is made of)
    table: pa.Table, columns: Columns, *, where: str, start: int, folder: Place, decoding: Decoding, use_labels: bool
) -> Rows:
    """Return some rows of a table, which begin at row `start` of the file called `where`.

    Raises:
        DataError: a path leaves the folder, or features are missing.
    """
    names = names_of(table, columns, where=where, start=start)
    labels = labels_of(table, columns) if use_labels else None
    if columns.content == "features":
        ids = table[columns.ids].to_pylist() if columns.ids else names
        return Rows(file_names=names, features_nd=features_of(table, columns, where), image_ids=ids, labels=labels)
    if columns.content == "paths":
        paths = [inside(name, start + row + 1) for row, name in enumerate(names)]
        return Rows(file_names=paths, opened=encoded(lambda row: _read(folder, paths[row]), decoding), labels=labels)
    contents = contents_of(table, columns)
    opened = encoded(lambda row: contents[row].as_py() or b"", decoding)
    return Rows(file_names=names, opened=opened, labels=labels)


def names_of(table: pa.Table, columns: Columns, *, where: str, start: int) -> list[str]:
    """Return the name of each image: its own, its path inside the file, or its number."""
    if columns.names:
        return [str(name) for name in table[columns.names].to_pylist()]
    of_content = table.schema.field(columns.of_content).type
    paths: Sequence[str | None] = [None] * len(table)
    if kinds.is_struct(of_content) and of_content.get_field_index("path") >= 0:
        paths = _field(table[columns.of_content], "path").to_pylist()
    numbers = range(start, start + len(table))
    return [f"{where}/{path or f'row-{number:09d}'}" for number, path in zip(numbers, paths, strict=True)]


def contents_of(table: pa.Table, columns: Columns) -> pa.ChunkedArray:
    """Return the encoded images."""
    column = table[columns.of_content]
    return _field(column, "bytes") if kinds.is_struct(column.type) else column


def features_of(table: pa.Table, columns: Columns, where: str) -> NDArray[np.float32]:
    """Return the features as (n, d)."""
    column = table[columns.of_content].combine_chunks()
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    values = column.flatten().to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
    n_features = columns.n_features or (len(values) // max(len(column), 1))
    if len(values) != len(column) * n_features or not np.isfinite(values).all():
        raise DataError(
            f"D17: column '{columns.of_content}' of '{where}' has rows without {n_features} finite numbers. "
            f"Compute these features again."
        )
    features_nd: NDArray[np.float32] = values.reshape(len(column), n_features)
    return features_nd


def labels_of(table: pa.Table, columns: Columns) -> list[str | None] | None:
    """Return the label of each row as text, or None where the table has no labels."""
    if not columns.label:
        return None
    labels = table[columns.label].to_pylist()
    names = columns.label_names
    if names:
        # A data set's own unlabelled images have the label -1.
        return [None if value is None or value < 0 else names[value] for value in labels]
    return [None if value is None or not str(value).strip() else str(value) for value in labels]


def _first(schema: pa.Schema, names: Sequence[str], is_right: Any) -> str | None:  # noqa: ANN401 (a function of a type)
    return next((name for name in names if name in schema.names and is_right(schema.field(name).type)), None)


def _image_column(schema: pa.Schema) -> str | None:
    is_image = {column.name: _is_content(column.type) for column in schema}
    structs = [column.name for column in schema if is_image[column.name] and kinds.is_struct(column.type)]
    binary = [name for name, is_one in is_image.items() if is_one]
    known = _first(schema, _CONTENT_NAMES, _is_content)
    return known or (structs[0] if structs else binary[0] if len(binary) == 1 else None)


def _is_content(type_: pa.DataType) -> bool:
    if kinds.is_struct(type_):
        return bool(type_.get_field_index("bytes") >= 0) and _is_content(type_.field("bytes").type)
    return bool(kinds.is_binary(type_) or kinds.is_large_binary(type_))


def _is_vector(type_: pa.DataType) -> bool:
    is_list = kinds.is_list(type_) or kinds.is_large_list(type_) or kinds.is_fixed_size_list(type_)
    return is_list and bool(kinds.is_floating(type_.value_type))


def _field(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    of_value = column.type.field(name).type
    return pa.chunked_array([chunk.field(name) for chunk in column.chunks], of_value)


def _label_names(schema: pa.Schema, label: str | None) -> tuple[str, ...]:
    """Return the names of a Hugging Face data set's numbered labels."""
    if label is None or not kinds.is_integer(schema.field(label).type):
        return ()
    try:
        info = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"][label]
        return tuple(str(name) for name in info["names"]) if info.get("_type") == "ClassLabel" else ()
    except (KeyError, ValueError, TypeError, AttributeError):
        return ()


def _read(folder: Place, path: str) -> bytes:
    """Return a file that a table names; one that leaves the folder through a link is not there."""
    place = folder.below(path)
    if folder.local is not None and not Path(place.path).resolve().is_relative_to(folder.local.resolve()):
        raise PermissionError(1, "the link leaves the folder")
    return place.read()
