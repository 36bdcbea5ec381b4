"""Scoring a finished run against the truth, the way the field does; reads only the run folder and the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nngcd.core.config import build, read_yaml
from nngcd.core.errors import DataError
from nngcd.core.files import read_json, read_table
from nngcd.core.run_folder import RunFolder
from nngcd.datasets import open_dataset
from nngcd.datasets.manifest_rows import read_rows
from nngcd.datasets.reading import Config as ReadingConfig
from nngcd.results import score


def evaluate(run: RunFolder, truth_file: Path | None = None) -> dict[str, Any]:
    """Return all scores of a run's unlabelled images.

    Args:
        run: a finished run.
        truth_file: CSV or Parquet with `file_name,label` for some or all unlabelled images; without it the truth of
            the run's own data set is used.

    Raises:
        DataError: there is no truth, or it does not fit the run.
    """
    if not run.results.is_file():
        raise DataError(f"{run.path} is not finished. Continue it: nngcd fit --resume {run.path}")
    results = read_table(run.results)
    true_name = _names_from_file(results, truth_file) if truth_file else _names_from_dataset(run, results)
    old_names = set(results["label_given"].dropna())
    is_scored = (results["label_given"].isna() & true_name.notna()).to_numpy()
    if not is_scored.any():
        raise DataError("none of the run's unlabelled images is in the truth. Do the file names agree?")
    classes, _ = pd.factorize(true_name[is_scored])
    clusters, _ = pd.factorize(results.loc[is_scored, "category"])
    is_old = true_name[is_scored].isin(old_names).to_numpy(dtype=bool)
    return score(classes.astype(np.int64), clusters.astype(np.int64), is_old)


def _names_from_file(results: pd.DataFrame, truth_file: Path) -> pd.Series:
    return results["file_name"].map({row.file_name: row.label for row in read_rows(truth_file)})


def _names_from_dataset(run: RunFolder, results: pd.DataFrame) -> pd.Series:
    settings = read_yaml(run.config)
    reading = build(ReadingConfig, settings.get("reading", {}))
    split, truth = open_dataset(settings["data"], dataset=settings["dataset"], reading=reading)
    if truth is None:
        raise DataError(
            f"the true labels of {settings['data']} are not known. "
            f"Give them as a table: nngcd evaluate {run.path} --truth TRUE_LABELS.csv (columns file_name,label)"
        )
    if split.fingerprint != read_json(run.environment)["split_hash"]:
        raise DataError(f"the images or labels of {settings['data']} have changed since the run; it cannot be scored.")
    return pd.Series(np.array(truth.class_names, dtype=object)[truth.classes], index=results.index)
