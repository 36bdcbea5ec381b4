"""The number of categories: of a run at its beginning, of images that were never sorted, of a finished run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import cast

import numpy as np

from nngcd.core import digests, processes
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_features, read_manifest
from nngcd.core.verified_files import damaged_file
from nngcd.counting.choosing import estimated_k
from nngcd.counting.estimate_k import CountingMethod, KEstimate
from nngcd.data.shrinking import Shrinker
from nngcd.data.split import Split
from nngcd.runs import writing
from nngcd.runs.preparing import Job, prepare
from nngcd.runs.views import Views
from nngcd.settings import Settings


def number_of_categories(
    job: Job, views: Views, *, run: RunFolder | None, progress: Progress
) -> tuple[int, KEstimate | None]:
    """Return K, and how it was estimated unless it was given. A resumed run keeps the estimate it began with."""
    if job.k is not None:
        return job.k, None
    estimate = writing.read_estimate(run) if run and run.k.is_file() else None
    if run and estimate and not job.given.n_old <= estimate.k <= len(job.given):
        reason = (
            f"k = {estimate.k}, but {job.given.n_old} categories are labelled and there are {len(job.given)} images"
        )
        raise damaged_file(run.k, reason, "Delete it, and the number is estimated again")
    if estimate is None:
        features_nd, settings = views.centre_features(progress), job.settings
        # With all labels: one number gives none of them away, and with a fifth less it is a good deal less certain.
        estimate = estimated_k(
            features_nd, job.given.labels, k_range=settings.k_range, seed=settings.seed, progress=progress
        )
        # Machines that round otherwise could count otherwise.
        estimate = cast(KEstimate, processes.from_first(estimate))
        if run and processes.is_first():
            writing.write_estimate(run.path, estimate)
            digests.record(run.path, ["k.json"])
    return estimate.k, estimate


def moves_range(estimate: KEstimate | None) -> tuple[int, int] | None:
    """Return between which numbers splits and merges may change an estimated K; None for one that was given."""
    if estimate is None or estimate.method == "given":
        return None
    return min(estimate.low, estimate.k), max(estimate.high, estimate.k)


def estimate_of_images(
    split: Split,
    settings: Settings,
    method: CountingMethod,
    *,
    cache: Path | None,
    progress: Progress,
    shrinker: Shrinker | None = None,
) -> KEstimate:
    """Return the number of categories of a split, judged by the untrained backbone's features."""
    # With the views that `fit` sees: whichever of the two comes first computes them for both.
    job = prepare(split, dataclasses.replace(settings, hold_back=0.0), only_centre=True, shrinker=shrinker)
    features_nd = Views.of(job, cache=cache, progress=progress).centre_features(progress)
    return estimated_k(
        features_nd, split.labels, k_range=settings.k_range, seed=settings.seed, method=method, progress=progress
    )


def estimate_of_run(run: RunFolder, settings: Settings, *, method: CountingMethod, progress: Progress) -> KEstimate:
    """Return the number of categories of a run's images, judged by its trained features.

    These were trained to fall into the run's K clusters, so the number leans towards that K.
    """
    run.check_complete()
    given = read_manifest(run)["label_given"].astype("category")
    features_nd = read_features(run, len(given)).float()
    labels = given.cat.codes.to_numpy().astype(np.int64)
    return estimated_k(
        features_nd, labels, k_range=settings.k_range, seed=settings.seed, method=method, progress=progress
    )
