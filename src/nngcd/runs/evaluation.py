"""Scoring a finished run against the truth, the way the field does; reads only the run folder and the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nngcd.core.errors import DataError
from nngcd.core.progress import OnProgress, Progress
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_categories, read_config, read_environment, read_results
from nngcd.core.words import argument
from nngcd.data.csv_rows import read_rows
from nngcd.data.reading_settings import ReadingSettings
from nngcd.data.split import Split, Truth
from nngcd.metrics.calibration import auroc, expected_calibration_error
from nngcd.results.images import reading_of, reopened
from nngcd.results.scoring import Scored, score
from nngcd.review.reviewed import reviewed_results
from nngcd.review.session import Review
from nngcd.runs.prediction import predict


def evaluate(
    run: RunFolder, truth_file: Path | None = None, *, columns: Sequence[str] = (), use_review: bool = True
) -> dict[str, Any]:
    """Return all scores of a run's unlabelled images, as a person left them where the run has a review.

    Confidence and novelty are the model's, so they are always held against what the model said.

    Args:
        run: a finished run.
        truth_file: CSV or Parquet with `file_name,label` for some or all unlabelled images; without it the truth of
            the run's own data set is used.
        columns: what the columns of that table are called, as "label=species", where they are not called so.
        use_review: whether the edits of a review count; images that a person rejected are then not scored.

    Raises:
        DataError: there is no truth, or it does not fit the run.
    """
    results = _finished(run)
    if truth_file:
        true_name, old_names = _names_from_file(results, truth_file, columns), _known_names(run)
    else:
        true_name, old_names = _names_from_dataset(run, results)
    is_scored = (results["label_given"].isna() & true_name.notna()).to_numpy()
    if not is_scored.any():
        raise DataError("the table of true labels has none of the run's unlabelled images. Check its file names.")
    part: Scored = "hidden" if reading_of(read_config(run)).hide_classes and not truth_file else "train"
    true_name, results = true_name[is_scored], results[is_scored]
    is_reviewed = use_review and count_edits(run) > 0
    category = _reviewed_categories(run)[is_scored] if is_reviewed else results["category"]
    scores = _scores(run, true_name, category, old_names, part=part)
    return scores | {"confidence": _trust(true_name, results, old_names), "is_reviewed": is_reviewed}


def evaluate_test(
    run: RunFolder,
    *,
    device: str = "auto",
    workers: int | None = None,
    on_progress: OnProgress | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Return all scores of the official test images of a run's benchmark, which its model has never seen.

    Raises:
        DataError: the run's data have no test images, or they are not there.
    """
    results = _finished(run)
    split, truth = reopened(read_config(run), part="test", on_progress=on_progress)
    if truth is None:
        raise DataError(f"the true labels of the test images of {split.name} are not known.")
    if unknown := sorted(set(results["label_given"].dropna()) - set(truth.class_names)):
        raise DataError(f"the run has a class '{unknown[0]}' that the test images lack. Use the same copy of the data.")
    predicted = predict(run, split, device=device, workers=workers, progress=progress)
    # Files that cannot be read follow the images, and are not scored.
    predicted, true_name, old_names = predicted[: len(split)], pd.Series(_true_names(truth)), _old_names(truth)
    scores = _scores(run, true_name, predicted["category"], old_names, part="test")
    return scores | {"confidence": _trust(true_name, predicted, old_names), "is_reviewed": False}


def count_edits(run: RunFolder) -> int:
    """Return how many edits of a run's review are in force; those that were undone are not."""
    return Review(run).n_edits if run.edits.is_file() else 0


def _reviewed_categories(run: RunFolder) -> pd.Series:
    """Return the category of each image of the run after its review; None where a person rejected the image."""
    table = reviewed_results(run).table
    return table.loc[table["image_id"].notna(), "category"]


def _finished(run: RunFolder) -> pd.DataFrame:
    # Scoring reads the results and nothing that is written after them, so it does not ask for the summary.
    if not run.results.is_file():
        raise run.not_finished()
    return read_results(run)


def _scores(
    run: RunFolder, true_name: pd.Series, category: pd.Series, old_names: set[str], *, part: Scored
) -> dict[str, Any]:
    """Return the scores of categories against true names; images without a category are counted and not scored."""
    is_sorted = category.notna().to_numpy()
    if not is_sorted.any():
        raise DataError("all images with a true label were rejected in the review; there is nothing to score.")
    classes, clusters = (_numbered(names[is_sorted], old_names) for names in (true_name, category))
    scores = score(classes, clusters, len(old_names), part=part, draw=reading_of(read_config(run)).draw)
    return scores | {"n_rejected": int((~is_sorted).sum())}


def _numbered(names: pd.Series, old_names: set[str]) -> NDArray[np.int64]:
    """Return names as numbers: those of old classes by their order, the same for classes and clusters, then others."""
    others = sorted(set(names) - old_names)
    number = {name: index for index, name in enumerate([*sorted(old_names), *others])}
    return names.map(number).to_numpy(dtype=np.int64)


def _trust(true_name: pd.Series, sorted_: pd.DataFrame, old_names: set[str]) -> dict[str, Any]:
    """Return what was stated and what was right, of rows called known and new, and how well novelty tells.

    A row called known is right if it has the right name; one called new, if it is of its category's main class.
    """
    is_old, category = true_name.isin(old_names).to_numpy(dtype=bool), sorted_["category"]
    is_known = category.isin(old_names).to_numpy(dtype=bool)
    main = true_name.groupby(category.to_numpy()).agg(lambda names: names.mode().iloc[0])
    meant = np.where(is_known, category, category.map(main))
    is_right, stated = true_name.to_numpy() == meant, sorted_["confidence"].to_numpy(dtype=np.float64)
    novelty = sorted_["novelty"].to_numpy(dtype=np.float64)
    return {
        "known": _stated_and_right(stated[is_known], is_right[is_known]),
        "new": _stated_and_right(stated[~is_known], is_right[~is_known]),
        "novelty_auroc": _separation(novelty, ~is_old),
        "novelty_auroc_known": _separation(novelty[is_known], ~is_old[is_known]),
    }


def _stated_and_right(stated: NDArray[np.float64], is_right: NDArray[np.bool_]) -> dict[str, Any] | None:
    if len(stated) == 0:
        return None
    error = expected_calibration_error(stated, is_right)
    numbers = {"stated": stated.mean(), "right": is_right.mean(), "calibration_error": error}
    return {"n": len(stated), **{name: round(float(value), 4) for name, value in numbers.items()}}


def _separation(novelty: NDArray[np.float64], is_new: NDArray[np.bool_]) -> float | None:
    """Return how well novelty separates new from known; None without novelty, or where all images are alike."""
    found = math.nan if np.isnan(novelty).any() else auroc(novelty, is_new)
    return None if math.isnan(found) else round(found, 4)


def held_back(run: RunFolder) -> dict[str, Any] | None:
    """Return how right a finished run is on the labels it held back; None when it held none back."""
    facts: dict[str, Any] | None = run.read_summary().get("held_back") if run.is_complete else None
    return facts


def knows_truth(run: RunFolder) -> bool:
    """Return whether the data of a finished run came with the true class of every image."""
    return run.is_complete and "scores" in run.read_summary()


def _names_from_file(results: pd.DataFrame, truth_file: Path, columns: Sequence[str]) -> pd.Series:
    rows = read_rows(truth_file, ReadingSettings(columns=tuple(columns)).column_of)
    return results["file_name"].map({row.file_name: row.label for row in rows})


def open_data(run: RunFolder) -> tuple[Split, NDArray[np.object_] | None]:
    """Return what a run was made from and the name of each image's true class, None where the truth is not known.

    Raises:
        DataError: the data are not there, or have changed since the run.
    """
    split, truth = _open_unchanged(run)
    return split, None if truth is None else _true_names(truth)


def _open_unchanged(run: RunFolder) -> tuple[Split, Truth | None]:
    split, truth = reopened(read_config(run))
    if split.fingerprint != read_environment(run)["split_hash"]:
        data = read_config(run)["data"]
        raise DataError(f"the images or labels of {data} have changed since the run. Restore them, or start a new run.")
    return split, truth


def _names_from_dataset(run: RunFolder, results: pd.DataFrame) -> tuple[pd.Series, set[str]]:
    _, truth = _open_unchanged(run)
    if truth is None:
        raise DataError(
            f"the true labels of {read_config(run)['data']} are not known. "
            f"Give them in a table: nngcd evaluate {argument(run.path)} --truth TRUE_LABELS.csv "
            "(columns file_name,label)"
        )
    return pd.Series(_true_names(truth), index=results.index), _old_names(truth)


def _true_names(truth: Truth) -> NDArray[np.object_]:
    # UNKNOWN is the last place.
    names: NDArray[np.object_] = np.array([*truth.class_names, None], dtype=object)[truth.classes]
    return names


def _known_names(run: RunFolder) -> set[str]:
    # Not the labels that were given: a known category may have no labelled image.
    categories, n_known = read_categories(run.model)
    return set(categories[:n_known])


def _old_names(truth: Truth) -> set[str]:
    return set(truth.class_names[: truth.n_old])
