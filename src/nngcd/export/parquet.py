"""`--to parquet`: labels.parquet, the same table with its types kept."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from nngcd.core.files import write_table
from nngcd.export.source import ExportSource, WrittenExport

FILE = "labels.parquet"
TARGETS = (FILE,)


def check(source: ExportSource, out: Path) -> None:
    """Nothing more is needed than the table."""


def write(source: ExportSource, out: Path) -> list[WrittenExport]:
    """Write the table; text stays text even in a column without any, and times are times."""
    table = source.table.copy()
    for name in table.columns:
        if name == "reviewed_at":
            table[name] = pd.to_datetime(table[name], utc=True)
        elif table[name].dtype == "object":
            is_flag = (
                table[name].dropna().map(lambda value: isinstance(value, bool)).all() and table[name].notna().any()
            )
            table[name] = table[name].astype("boolean" if is_flag else "string")
    write_table(out / FILE, table)
    return [WrittenExport(out / FILE, f"{len(table)} rows")]
