"""From packed images to a `Split`, with all that `nngcd fit` checks in a folder of files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nngcd.core.errors import DataError, ResourceError
from nngcd.core.progress import OnProgress
from nngcd.data.csv_rows import read_rows
from nngcd.data.labels import index_names, texts_as_labels
from nngcd.data.listed import Listed, read, settled_names, warn_of_unused
from nngcd.data.packs import Pack
from nngcd.data.reading_settings import ReadingSettings
from nngcd.data.split import Problem, Split, table_of_ids
from nngcd.data.strata import Labels

LARGEST_SHARE = 0.6
"""Of the free memory that features may take."""


def split_of_pack(  # noqa: PLR0913 (what a split is made of)
    pack: Pack, names: Sequence[str], labels: Sequence[str | None] | None, *, name: str, reading: ReadingSettings,
    problems: Sequence[Problem] = (), on_progress: OnProgress | None = None,
) -> Split:  # fmt: skip
    """Return the images of a pack, checked as files are."""
    listed = Listed(
        name=name, folder=pack, file_names=names, labels=given_labels(names, labels, reading), problems=problems
    )  # fmt: skip
    return read(listed, reading, on_progress=on_progress)


def split_of_features(
    features_nd: NDArray[np.float32], names: Sequence[str], ids: Sequence[str], labels: Sequence[str | None] | None,
    *, name: str, reading: ReadingSettings,
) -> Split:  # fmt: skip
    """Return features that `nngcd embed` or another program computed."""
    given = settled_names(given_labels(names, labels, reading), reading)
    warn_of_unused(given, reading)
    indices, class_names = index_names(given)
    return Split(
        name=name, images=None, features_nvd=features_nd[:, None], labels=indices, class_names=class_names,
        table=table_of_ids(ids, names),
    )  # fmt: skip


def given_labels(
    names: Sequence[str], labels: Sequence[str | None] | None, reading: ReadingSettings
) -> list[str | None]:
    """Return the label of each row: that of a table of labels where there is one, otherwise the data's own."""
    found = label_lookup(reading)(names, labels)
    if reading.labels and not any(label is not None for label in found):
        raise DataError(
            f"D15: no row of '{reading.labels}' gives a label to an image of the data. File names must be as in the "
            f"data, where the first is '{names[0]}'."
        )
    return found


def label_lookup(reading: ReadingSettings) -> Labels:
    """Return a function with the labels of some rows: from the table of labels where there is one, or the data."""
    if not reading.labels:
        return lambda names, labels: [None] * len(names) if labels is None else texts_as_labels(labels)
    table = read_rows(Path(reading.labels), reading.column_of)
    texts = texts_as_labels([row.label for row in table])
    by_name = {row.file_name: text for row, text in zip(table, texts, strict=True) if text is not None}
    return lambda names, labels: [by_name.get(name) for name in names]


def free_gb() -> float:
    """Return how much memory can still be used, in GB; a great deal where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) / 1e6 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return 1e6


def refuse_if_too_large(n_rows: int, n_features: int, data: str) -> None:
    """Raise `ResourceError` where features do not fit into memory."""
    gigabytes = n_rows * n_features * 4 / 1e9
    if gigabytes > LARGEST_SHARE * free_gb():
        raise ResourceError(
            f"T06: {n_rows:,} rows of {n_features} features take {gigabytes:.1f} GB of memory, and {free_gb():.1f} GB "
            f"are free. Fit on a sample: nngcd fit {data} --sample {max(n_rows // 10, 1000)}"
        )
