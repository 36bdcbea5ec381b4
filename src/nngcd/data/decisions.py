"""Labels that a person gave in a review, laid over those that came with the data."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd

from nngcd.core.errors import DataError
from nngcd.data.labels import index_names
from nngcd.data.sampling import of_rows
from nngcd.data.split import Problem, Split

REJECTED = "rejected"
"""Source of a decision that an image is not to be used, and the code of the problem that it becomes."""
_COLUMNS = ("image_id", "file_name", "label", "source")


def read_decisions(path: Path) -> pd.DataFrame:
    """Return a table of decisions; what is empty in it is an empty text."""
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"the labels of the review ({path}) were not found. Restore the reviewed run.") from None
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path} ({error}). Create it again: nngcd fit --from-review RUN") from None
    if missing := [name for name in _COLUMNS if name not in table.columns]:
        raise DataError(f"{path} lacks the column '{missing[0]}'. Create it again: nngcd fit --from-review RUN")
    return table


def with_decisions_of(split: Split, path: Path) -> Split:
    """Return the split with the labels of a table of decisions, and without the images that were rejected.

    Args:
        split: the data as they are read without a review.
        path: CSV with image_id, file_name, label (empty: unlabelled) and source, from `nngcd fit --from-review`.

    Raises:
        DataError: the table is missing or damaged, or belongs to other images.
    """
    decided = read_decisions(path).set_index("image_id")
    known = split.table["image_id"].isin(decided.index).to_numpy(dtype=bool)
    if not known.all():
        name = split.table.loc[~known, "file_name"].iloc[0]
        raise DataError(
            f"{(~known).sum():,} images were not in the run that was reviewed, or have changed since, first '{name}'. "
            f"Remove them, or start a new run with all images."
        )
    decided = decided.loc[split.table["image_id"]]
    is_kept = (decided["source"] != REJECTED).to_numpy(dtype=bool)
    rows = np.flatnonzero(is_kept).astype(np.int64)
    labels, class_names = index_names([name or None for name in decided["label"][is_kept]])
    rejected = [Problem(str(name), REJECTED, "rejected in review") for name in split.table["file_name"][~is_kept]]
    n_classes = split.n_classes if split.n_classes and split.n_classes >= len(class_names) else None
    return dataclasses.replace(
        of_rows(split, rows),
        labels=labels,
        class_names=class_names,
        problems=(*split.problems, *rejected),
        n_classes=n_classes,
    )
