"""Checked reading of a run's files: each is bounded in size, compared with its digest and checked against its schema.

Run folders come from strangers and from damaged disks. Whatever is wrong with a file is a `DataError` (R03) that names
the file and the reason, before anything is made of its content.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from pydantic import BaseModel, ValidationError

from nngcd.core import digests
from nngcd.core.errors import DataError
from nngcd.core.files import DIGEST, tensors_digest

if TYPE_CHECKING:
    from torch import Tensor

MOST_BYTES = 2**30
"""Of a file that is read as a whole; safetensors files are not."""
MOST_CELLS = 2**31
"""Of a table: a few bytes of Parquet can stand for any number of equal rows."""
RESTORE = "Restore it from a backup or run `nngcd fit` again"

Kind = Literal["text", "text or none", "share", "number or none", "flag"]
"""Kind of values in a column; a share is from 0 to 1."""


def damaged_file(path: Path, reason: object, way_out: str = RESTORE) -> DataError:
    """Return the error for a file of a run that does not hold what it should."""
    return DataError(f"R03: {path} is damaged ({reason}). {way_out}.")


def missing_file(path: Path) -> DataError:
    """Return the error for a file of a run that is not there."""
    return DataError(f"R03: {path} is missing. {RESTORE}.")


def read_content(path: Path, *, way_out: str = RESTORE) -> bytes:
    """Return the bytes of a file, which are those that the run wrote if it left a digest of them."""
    try:
        if (size := path.stat().st_size) > MOST_BYTES:
            raise damaged_file(path, f"{size:,} bytes are too many for this file", way_out)
        content = path.read_bytes()
    except FileNotFoundError:
        raise missing_file(path) from None
    except OSError as error:
        raise damaged_file(path, error.strerror or error, way_out) from error
    if (digest := digests.expected(path)) is not None and digests.digest_of(content) != digest:
        raise damaged_file(path, f"it was changed after the run: its sha256 differs from {digests.FILE}", way_out)
    return content


def read_json(path: Path, schema: type[BaseModel], *, way_out: str = RESTORE) -> dict[str, Any]:
    """Return the values of a JSON file, as they stand there."""
    return parse_json(read_content(path, way_out=way_out), schema, path, way_out=way_out)


def parse_json(
    content: bytes, schema: type[BaseModel], path: Path, *, where: str = "", way_out: str = RESTORE
) -> dict[str, Any]:
    """Return the values of some JSON from a file; raise `DataError` where it does not fit the schema."""
    try:
        # First: of values nested without end, pydantic says so, while Python's own reader may end the process.
        schema.model_validate_json(content)
        values: dict[str, Any] = json.loads(content)
    except ValidationError as error:
        raise damaged_file(path, where + first_reason(error), way_out) from None
    except (ValueError, RecursionError) as error:
        raise damaged_file(path, f"{where}{error}", way_out) from error
    return values


def first_reason(error: ValidationError) -> str:
    """Return the first thing that is wrong, in words."""
    first = error.errors(include_url=False, include_context=False)[0]
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return f"it lacks '{name}'"
    value = "" if isinstance(first["input"], (dict, list, str)) else f" = {first['input']!r}"[:80]
    return f"{name}{value}: {first['msg']}" if name else str(first["msg"])


def read_table(path: Path, columns: Mapping[str, Kind], optional: Mapping[str, Kind] | None = None) -> pd.DataFrame:
    """Return a Parquet table with these columns; those that are optional are checked where they are there."""
    content = read_content(path)
    try:
        facts = pq.ParquetFile(io.BytesIO(content)).metadata
        if facts.num_rows * max(facts.num_columns, 1) > MOST_CELLS:
            raise ValueError(f"{facts.num_rows:,} rows are too many for a run")
        table = pd.read_parquet(io.BytesIO(content))
    except Exception as error:  # a damaged file can raise anything
        raise damaged_file(path, _one_line(error)) from error
    return check_columns(table, path, columns, optional)


def read_csv(path: Path, columns: Mapping[str, Kind]) -> pd.DataFrame:
    """Return a table of texts; names such as `NA` and `007` stay as they are, and nothing is an empty text."""
    content = read_content(path)
    try:
        table = pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)
    except Exception as error:  # a damaged file can raise anything
        raise damaged_file(path, _one_line(error)) from error
    return check_columns(table, path, columns)


def check_columns(
    table: pd.DataFrame, path: Path, columns: Mapping[str, Kind], optional: Mapping[str, Kind] | None = None
) -> pd.DataFrame:
    """Return a table whose columns hold what they should; raise `DataError` otherwise."""
    if not all(isinstance(name, str) for name in table.columns) or not table.columns.is_unique:
        raise damaged_file(path, "its columns lack names, or two have the same name")
    if lacking := [name for name in columns if name not in table.columns]:
        raise damaged_file(path, f"it lacks the column '{lacking[0]}'")
    for name, kind in {**(optional or {}), **columns}.items():
        if name in table.columns and not _holds(table[name], kind):
            raise damaged_file(path, f"the column '{name}' must hold {_WORDS[kind]}")
    return table


_WORDS: dict[Kind, str] = {
    "text": "texts",
    "text or none": "texts",
    "share": "numbers from 0 to 1",
    "number or none": "numbers",
    "flag": "true and false",
}


def _holds(column: pd.Series, kind: Kind) -> bool:
    if kind == "flag":
        return bool(pd.api.types.is_bool_dtype(column.dtype)) and not column.isna().any()
    if kind in ("text", "text or none"):
        found = pd.api.types.infer_dtype(column, skipna=True)
        return found in ("string", "empty") and (kind == "text or none" or not column.isna().any())
    if not pd.api.types.is_float_dtype(column.dtype) and not pd.api.types.is_integer_dtype(column.dtype):
        return kind == "number or none" and bool(column.isna().all())
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    if kind == "share":
        return bool(((values >= 0) & (values <= 1)).all())
    return not np.isinf(values).any()


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors and the strings of a safetensors file, which are those that were written."""
    from safetensors import safe_open  # here: it imports torch, which takes seconds

    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}
            strings = dict(file.metadata() or {})
    except FileNotFoundError:
        raise missing_file(path) from None
    except Exception as error:
        raise damaged_file(path, _one_line(error)) from error
    if strings.pop(DIGEST, None) != tensors_digest(tensors, strings):
        raise damaged_file(path, "its content does not match its sha256")
    return tensors, strings


def _one_line(error: Exception) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:200]
