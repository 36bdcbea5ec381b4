"""Only the number of categories: of images that were never sorted, or of a finished run's features."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from nngcd.choosing_k import estimated_k
from nngcd.clustering.estimate_k import KEstimate, Method
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_features, read_manifest
from nngcd.datasets.split import Split
from nngcd.job import centre_view_features, kept_views, prepare
from nngcd.settings import Settings


def estimate_of_images(
    split: Split, settings: Settings, *, method: Method, cache: Path | None, progress: Progress
) -> KEstimate:
    """Return the number of categories of a split, judged by the untrained backbone's features."""
    # With the views that `fit` sees: whichever of the two comes first computes them for both.
    job = prepare(split, dataclasses.replace(settings, hold_back=0.0), only_centre=True)
    features_nd = centre_view_features(job, kept_views(job, cache=cache, progress=progress), progress)
    return estimated_k(
        features_nd, split.labels, k_range=settings.k_range, seed=settings.seed, method=method, progress=progress
    )


def estimate_of_run(run: RunFolder, settings: Settings, *, method: Method, progress: Progress) -> KEstimate:
    """Return the number of categories of a run's images, judged by its trained features.

    These were trained to fall into the run's K clusters, so the number leans towards that K.

    Raises:
        DataError: the run is not finished.
    """
    run.check_complete()
    given = read_manifest(run)["label_given"].astype("category")
    features_nd = read_features(run, len(given)).float()
    labels = given.cat.codes.to_numpy().astype(np.int64)
    return estimated_k(
        features_nd, labels, k_range=settings.k_range, seed=settings.seed, method=method, progress=progress
    )
