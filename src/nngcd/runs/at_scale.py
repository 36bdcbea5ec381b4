"""A fit on a sample: its plan, said before, and after it the sorting of all images into the run folder."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator

from nngcd.core import processes
from nngcd.core.device import choose_workers
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder
from nngcd.core.words import duration
from nngcd.data.sources import Rows, Source
from nngcd.datasets.opening import open_source
from nngcd.runs.merging import MANIFEST
from nngcd.runs.prediction import Sorter
from nngcd.runs.preparing import Job
from nngcd.runs.sharded_work import share_out
from nngcd.settings import Settings
from nngcd.training.passing import pass_rows

IMAGES_TIMED = 64
BYTES_PER_ROW = 80
"""Of a part with predictions, compressed."""


def plan_words(job: Job) -> Iterator[str]:
    """Yield lines that say how many images are trained on and sorted, how long that takes, and how large it is."""
    if not job.settings.reading.sample:
        return
    source = _source_of(job.settings)
    n, n_all = len(job.given), source.n_rows
    every = "all" if n_all is None else f"all {n_all:,}"
    yield (
        f"plan: train on a sample of {n:,} rows ({job.given.n_labelled:,} labelled), then sort {every} in "
        f"{len(source.units):,} parts"
    )
    if source.n_features is not None:
        gigabytes = n * source.n_features * 4 / 1e9
        yield f"      the sample takes {max(gigabytes, 0.01):.2f} GB of memory"
    if n_all is not None:
        seconds = n_all * _seconds_per_row(job, source)
        per = f"about {duration(seconds)} in one process, {duration(seconds / 8)} in eight"
        yield f"      sorting takes {per}, and the parts {max(n_all * BYTES_PER_ROW / 1e9, 0.01):.2f} GB of disk"


def sort_all(run: RunFolder, settings: Settings, progress: Progress) -> None:
    """Sort everything that a sample was drawn from, in parts that a later command completes if this one is stopped."""
    if run.assigned.joinpath(MANIFEST).is_file():
        return
    source = _source_of(settings)
    sorter = Sorter.load(run, device=settings.device, workers=settings.workers, engine=settings.engine)
    shard = None if processes.count() > 1 else "0/1"
    share_out(source, sorter.work(run), str(run.assigned), shard, progress=progress)


def _source_of(settings: Settings) -> Source:
    """Return everything that a sample is drawn from."""
    reading = dataclasses.replace(settings.reading, sample=None)
    return open_source(settings.data, dataset=settings.dataset, reading=reading, use_labels=False)


def _seconds_per_row(job: Job, source: Source) -> float:
    """Return how long a row takes, by the first ones."""
    rows = next((rows for unit in source.units for rows in unit.read() if len(rows.file_names)), None)
    if rows is None:
        return 0.0
    few = rows if rows.features_nd is not None else _first(rows)
    pass_rows(job.backbone, _first(rows), n_workers=0)  # the first pass also loads things
    started = time.perf_counter()
    pass_rows(job.backbone, few, n_workers=choose_workers(job.settings.workers))
    return (time.perf_counter() - started) / len(few.file_names)


def _first(rows: Rows) -> Rows:
    n = IMAGES_TIMED
    return dataclasses.replace(
        rows,
        file_names=rows.file_names[:n],
        features_nd=None if rows.features_nd is None else rows.features_nd[:n],
        image_ids=None if rows.image_ids is None else rows.image_ids[:n],
        labels=None if rows.labels is None else rows.labels[:n],
    )
