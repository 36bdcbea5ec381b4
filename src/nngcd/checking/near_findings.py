"""Findings about near-identical images: a table of the groups and the messages about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nngcd.core.words import count
from nngcd.data.findings import Finding
from nngcd.data.near_copies import NONE
from nngcd.data.split import Problem

NEAR_COLUMNS = ("group", "n_images", "n_labelled", "labels", "file_names")
SEPARATOR = " | "


def near_table(
    near: NDArray[np.int64], file_names: Sequence[str], names: Sequence[str | None], contents: Sequence[str]
) -> pd.DataFrame:
    """Return one row per group of near-identical images; exact copies alone do not make a group."""
    rows: list[tuple[int, int, int, str, str]] = []
    members_of: dict[int, list[int]] = {}
    for row in np.flatnonzero(near != NONE).tolist():
        members_of.setdefault(int(near[row]), []).append(row)
    for members in members_of.values():
        if len({contents[row] for row in members}) > 1:
            given = [name for row in members if (name := names[row]) is not None]
            files = SEPARATOR.join(sorted(file_names[row] for row in members))
            rows.append((len(rows) + 1, len(members), len(given), SEPARATOR.join(sorted(set(given))), files))
    return pd.DataFrame(rows, columns=list(NEAR_COLUMNS))


def about_near(table: pd.DataFrame) -> Iterator[Finding]:
    """Yield the findings about near-identical images."""
    if table.empty:
        return
    yield Finding(
        code="D32", severity="note", files=_files(table, "near-identical to"),
        what=f"{count(int(table['n_images'].sum()), 'near-identical image')} in {count(len(table), 'group')} "
        f"(bursts or re-saved pictures), largest {int(table['n_images'].max())}, first '{_first(table)}'",
        effect="all are used; labels are held back for whole groups",
    )  # fmt: skip
    is_contradicted = table["labels"].str.contains(SEPARATOR, regex=False)
    if is_contradicted.any():
        some = table[is_contradicted]
        yield Finding(
            code="D32", severity="warning", files=_files(some, "label differs from near-identical"),
            what=f"{count(len(some), 'group')} of near-identical images with different labels, first "
            f"'{_first(some)}' ({some['labels'].iloc[0].replace(SEPARATOR, ' and ')})",
            effect="used as labelled, but never held back; correct the labels if they are wrong",
        )  # fmt: skip
    is_partly = table["n_labelled"].between(1, table["n_images"] - 1)
    if is_partly.any():
        some = table[is_partly]
        yield Finding(
            code="D32", severity="warning", files=_files(some, "only some labelled of the images near-identical to"),
            what=f"{count(len(some), 'group')} of near-identical images only partly labelled, first '{_first(some)}'",
            effect="the others are sorted as unlabelled, which makes results look too good; label them as well",
        )  # fmt: skip


def _first(table: pd.DataFrame) -> str:
    return str(table["file_names"].iloc[0]).split(SEPARATOR)[0]


def _files(table: pd.DataFrame, reason: str) -> tuple[Problem, ...]:
    groups = (str(files).split(SEPARATOR) for files in table["file_names"])
    return tuple(
        Problem(file_name, "D32", f"{reason} {files[0] if file_name != files[0] else files[1]}")
        for files in groups for file_name in files
    )  # fmt: skip
