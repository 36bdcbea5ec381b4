"""What a report tells of, whether it comes from a run folder or from a fitted estimator."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nngcd.clustering.estimate_k import KEstimate
from nngcd.core.environment import environment
from nngcd.core.errors import DataError
from nngcd.datasets.split import Images, Split

NOT_SORTED = ("unreadable", "excluded")
"""Statuses of rows that belong to no category."""


@dataclass(frozen=True, slots=True)
class Pictures:
    """The images of a run in the order of its results, or why there are none to show."""

    images: Images | None
    why_none: str = ""


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

    def __post_init__(self) -> None:
        if len(self.results) != len(self.features_nd):
            counts = f"{len(self.results)} sorted images and {len(self.features_nd)} features"
            raise DataError(f"the results do not fit the features ({counts}). Are both files of one run?")

    @property
    def category_n(self) -> NDArray[np.int64]:
        """(n,) the category of each image, as a row of `categories`."""
        number = {name: index for index, name in enumerate(self.categories["id"])}
        return np.array([number[name] for name in self.results["category"]], dtype=np.int64)

    def column(self, name: str, absent: object) -> NDArray[Any]:
        """Return a column of the results, filled with `absent` where a run's results do not have it."""
        if name not in self.results.columns:
            return np.full(len(self.results), absent)
        values: NDArray[Any] = self.results[name].to_numpy()
        return values

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
    why_none = "" if has_images else "This was made from features, not from images: there is nothing to show."
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
