"""`--to csv`: labels.csv, one row per image; `--csv excel` makes it safe for spreadsheets."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from nngcd.core.atomic import atomic, writing
from nngcd.export.source import CsvForm, ExportSource, WrittenExport

FILE = "labels.csv"
TARGETS = (FILE,)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters that make a spreadsheet calculate what it should show."""


def check(source: ExportSource, out: Path) -> None:
    """Nothing more is needed than the table."""


def write(source: ExportSource, out: Path) -> list[WrittenExport]:
    """Write the table."""
    write_csv(out / FILE, source.table, source.options.csv)
    return [WrittenExport(out / FILE, f"{len(source.table)} rows")]


def write_csv(path: Path, table: pd.DataFrame, form: CsvForm = "plain") -> None:
    """Write a table as RFC 4180 says: UTF-8, comma, header, quotes where needed, no index column.

    Args:
        path: the file.
        table: what to write; True and False are written as true and false, nothing as nothing.
        form: `excel` adds a byte order mark, ends lines as Windows does, puts a ' before what would be a formula.
    """
    is_excel = form == "excel"
    texts = {name: _plain(column, is_excel=is_excel) for name, column in table.items()}
    with atomic(path) as temporary, writing(path):
        pd.DataFrame(texts, index=table.index).to_csv(
            temporary,
            index=False,
            float_format="%.6g",
            lineterminator="\r\n" if is_excel else "\n",
            encoding="utf-8-sig" if is_excel else "utf-8",
        )


def _plain(column: pd.Series, *, is_excel: bool) -> pd.Series:
    if pd.api.types.is_float_dtype(column) or pd.api.types.is_integer_dtype(column):
        return column
    return column.map(lambda value: _text(value, is_excel=is_excel)).astype("object")


def _text(value: object, *, is_excel: bool) -> object:
    if value is None or value is pd.NA or value is pd.NaT or value != value:
        return None
    if isinstance(value, str):
        return f"'{value}" if is_excel and value.startswith(_FORMULA) else value
    return str(value).lower() if str(value) in ("True", "False") else value
