"""The rows of a manifest, CSV or Parquet, each with the line it stands on so that errors can point at it."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

import pandas as pd

from nngcd.core.errors import DataError
from nngcd.datasets.file_tree import no_such_path

TABLE_EXTENSIONS = (".csv", ".tsv", ".parquet")
SPREADSHEET_EXTENSIONS = (".xlsx", ".xls", ".ods")
_REQUIRED = ("file_name", "label")


@dataclass(frozen=True, slots=True)
class Row:
    """One image of a manifest; `label` is the text as given, or None where the field is empty."""

    line: int
    file_name: str
    label: str | None
    split: str | None = None
    group: str | None = None


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a manifest, every file once.

    Raises:
        DataError: no such file, wrong columns, a path that leaves the data folder, or rows that contradict each other.
    """
    if not path.is_file():
        raise no_such_path(path, expected="manifest")
    if path.suffix.lower() in SPREADSHEET_EXTENSIONS:
        raise DataError(f"D17: '{path}' is a spreadsheet. Save it as CSV (UTF-8) and give that file.")
    is_parquet = path.suffix.lower() == ".parquet"
    try:
        records = list(_parquet_records(path) if is_parquet else _csv_records(path))
    except csv.Error as error:
        raise DataError(f"D17: '{path}' cannot be read as CSV ({error}). Is a quote left open?") from None
    by_name: dict[str, Row] = {}
    for line, record in records:
        row = Row(line, _inside(record["file_name"], line), *(record.get(key) for key in ("label", "split", "group")))
        first = by_name.setdefault(row.file_name, row)
        if (first.label, first.split, first.group) != (row.label, row.split, row.group):
            raise DataError(
                f"D14: lines {first.line} and {row.line} of '{path}' say different things about '{row.file_name}' "
                f"({first.label or 'no label'} / {row.label or 'no label'}). Keep one of them."
            )
    if not by_name:
        raise DataError(f"D02: '{path}' lists no images.")
    return list(by_name.values())


Record = Mapping[str, str | None]


def _csv_records(path: Path) -> Iterator[tuple[int, Record]]:
    text = _decoded(path)
    header_line = text.partition("\n")[0]
    # The delimiter is the one that finds the columns; for the error message, the one that finds the most.
    splits = {mark: [name.strip() for name in next(csv.reader([header_line], delimiter=mark), [])] for mark in ",;\t"}
    mark = max(splits, key=lambda mark: (set(_REQUIRED) <= set(splits[mark]), len(splits[mark])))
    header = splits[mark]
    _check_columns(header, path)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark)
    next(reader)
    end_of_previous = reader.line_num
    for fields in reader:
        line, end_of_previous = end_of_previous + 1, reader.line_num
        if not any(field.strip() for field in fields):
            continue
        if len(fields) > len(header):
            raise DataError(
                f"D17: line {line} of '{path}' has {len(fields)} fields, the header {len(header)}. "
                f"Put quotes around values that contain '{mark}'."
            )
        # Rows may be cut short where the last fields are empty.
        fields += [""] * (len(header) - len(fields))
        yield line, {name: field if field.strip() else None for name, field in zip(header, fields, strict=True)}


def _decoded(path: Path) -> str:
    data = path.read_bytes()
    try:
        return data.decode("utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"D17: '{path}' is not UTF-8 text. Save it as CSV (UTF-8).") from None


def _parquet_records(path: Path) -> Iterator[tuple[int, Record]]:
    try:
        table = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise DataError(f"D17: '{path}' cannot be read as Parquet ({error}).") from None
    _check_columns([str(name) for name in table.columns], path)
    names = [name for name in ("file_name", "label", "split", "group") if name in table.columns]
    for row, values in enumerate(table[names].itertuples(index=False, name=None), start=1):
        texts = (None if pd.isna(value) or not str(value).strip() else str(value) for value in values)
        yield row, dict(zip(names, texts, strict=True))


def _check_columns(found: list[str], path: Path) -> None:
    missing = [f"'{name}'" for name in _REQUIRED if name not in found]
    if missing:
        raise DataError(
            f"D17: no column {' and '.join(missing)} in '{path}' (found: {', '.join(found)}). Rename the columns to "
            f"file_name,label[,split,group]; leave label empty where an image has none."
        )


def _inside(file_name: str | None, line: int) -> str:
    """Return the path with forward slashes and without detours."""
    if file_name is None:
        raise DataError(f"D17: line {line} has no file_name.")
    is_url = re.match(r"[a-z][a-z0-9+.-]*://|file:|data:", file_name, re.IGNORECASE) is not None
    windows, posix = PureWindowsPath(file_name), PurePosixPath(file_name.replace("\\", "/"))
    if is_url or windows.drive or windows.root:
        what = "a URL, which is never fetched" if is_url else "an absolute path"
        raise DataError(f"D18: line {line} holds {what}: '{file_name}'. Paths must be relative to the data folder.")
    parts: list[str] = []
    for part in posix.parts:
        if part == ".." and not parts:
            raise DataError(f"D18: line {line} points outside the data folder: '{file_name}'. Move the file inside.")
        parts = parts[:-1] if part == ".." else [*parts, part]
    return "/".join(parts)
