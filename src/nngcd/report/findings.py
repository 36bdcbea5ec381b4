"""Content of a report, from a run folder or from a fitted estimator."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nngcd.core.environment import environment
from nngcd.core.errors import DataError
from nngcd.core.places import Place
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_config, read_environment, read_features, read_problems
from nngcd.counting.estimate_k import KEstimate
from nngcd.data.split import Split
from nngcd.results.images import Pictures, find_pictures
from nngcd.review.reviewed import reviewed_results
from nngcd.runs.merging import read_counts
from nngcd.runs.writing import read_estimate

NOT_SORTED = ("unreadable", "excluded")
"""Statuses of rows that belong to no category."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Findings:
    """Everything that is known about a finished run.

    Args:
        title: what the page is called.
        results: one row per sorted image, as in results.parquet.
        categories: the columns `id`, `name` and `kind` (known or new), one row per category.
        features_nd: the learned feature of each row of `results`.
        pictures: the images of these rows.
        summary: the numbers of summary.json.
        k_estimate: how the number of categories was found; None when it was given.
        epochs: what was recorded of each epoch of training.
        problems: files that were not used, and why.
        settings: the settings of the run, nested as in config.yaml.
        environment: versions, machine, command line and times.
        assigned: how many images have which status, of all that the images of the run are a sample of.
    """

    title: str
    results: pd.DataFrame
    categories: pd.DataFrame
    features_nd: NDArray[np.float32]
    pictures: Pictures
    summary: dict[str, Any]
    k_estimate: KEstimate | None = None
    epochs: list[dict[str, Any]] = field(default_factory=list)
    problems: pd.DataFrame = field(default_factory=pd.DataFrame)
    settings: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    assigned: Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        if len(self.results) != len(self.features_nd):
            counts = f"{len(self.results)} sorted images and {len(self.features_nd)} features"
            raise DataError(f"the results do not match the features ({counts}). Use files of one run.")

    @property
    def category_n(self) -> NDArray[np.int64]:
        """(n,) the category of each image, as a row of `categories`."""
        number = {name: index for index, name in enumerate(self.categories["id"])}
        return np.array([number[name] for name in self.results["category"]], dtype=np.int64)

    @property
    def is_labelled_n(self) -> NDArray[np.bool_]:
        """(n,) whether the user gave a label."""
        is_labelled: NDArray[np.bool_] = self.results["label_given"].notna().to_numpy(dtype=bool)
        return is_labelled


def is_sorted(results: pd.DataFrame) -> NDArray[np.bool_]:
    """Return (n,) which images are in a category."""
    is_in: NDArray[np.bool_] = (results["category"].notna() & ~results["status"].isin(NOT_SORTED)).to_numpy(dtype=bool)
    return is_in


def findings_from_fit(  # noqa: PLR0913 (everything a report speaks of)
    split: Split,
    results: pd.DataFrame,
    categories: pd.DataFrame,
    features_nd: NDArray[np.float32],
    *,
    settings: dict[str, Any],
    k_estimate: KEstimate | None,
    facts: Mapping[str, Any],
) -> Findings:
    """Return what is known about images that were sorted without a run folder."""
    has_images = split.images is not None
    summary = {
        **{name: settings[name] for name in ("method", "preset", "effort", "seed")},
        "backbone": settings["backbone"] if has_images else "features",
        "split_hash": split.fingerprint,
        **facts,
    }
    why_none = "" if has_images else "These are features, not images, so there is nothing to show."
    return Findings(
        title=split.name,
        results=results,
        categories=categories[["id", "name", "kind"]],
        features_nd=features_nd,
        pictures=Pictures(split.images, why_none),
        summary=summary,
        k_estimate=k_estimate,
        problems=pd.DataFrame([dataclasses.asdict(problem) for problem in split.problems]),
        settings=settings,
        environment={"versions": environment()["versions"]},
    )


def read_findings(run: RunFolder, *, root: Path | None = None) -> Findings:
    """Return everything a finished run folder holds, and where its images are.

    Args:
        run: a finished run.
        root: the folder the images are in now, if they were moved.

    Raises:
        DataError: the run is not finished, or a file of it is missing or damaged.
        ConfigError: `root` does not hold the images of the run.
    """
    run.check_complete()
    summary, settings = run.read_summary(), read_config(run)
    reviewed = reviewed_results(run)
    results = reviewed.table[reviewed.table["image_id"].notna()]
    # A person may have taken images out after they were sorted.
    is_sorted_n = is_sorted(results)
    features_nd = read_features(run, len(results)).float().numpy()[is_sorted_n]
    results = results[is_sorted_n].reset_index(drop=True)
    return Findings(
        title=run.path.resolve().name,
        results=results,
        categories=reviewed.categories[["id", "name", "kind"]],
        features_nd=features_nd,
        pictures=find_pictures(summary, settings, results, root),
        summary=summary,
        k_estimate=read_estimate(run) if summary["k_estimate"] and run.k.is_file() else None,
        epochs=run.read_metrics(),
        problems=read_problems(run),
        settings=settings,
        environment=read_environment(run),
        assigned=read_counts(Place.of(run.assigned)),
    )
