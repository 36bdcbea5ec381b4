"""Rows of a source through a network: images are read ahead by threads, in batches that depend on the rows alone."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor

from nngcd.backbones.backbone import Backbone
from nngcd.core.progress import Progress
from nngcd.data.decoding import UnreadableError
from nngcd.data.image_content import why_unreadable
from nngcd.data.sources import Rows
from nngcd.data.split import Problem, image_table
from nngcd.training.extraction import ACCELERATOR_BATCH, IMAGES_PER_READ, run_tail, run_trunk
from nngcd.training.model import device_of

LABEL = "label"
_NAMED = ["file_name", "image_id"]


class Passed(NamedTuple):
    """The rows that could be read, their features, and what could not be read."""

    named: pd.DataFrame
    """`file_name`, `image_id` and, where the source has labels, `label`."""
    features_nd: Tensor
    problems: tuple[Problem, ...]


class _View(NamedTuple):
    row: int
    pixels: Tensor
    content_hash: str


@torch.no_grad()
def pass_rows(backbone: Backbone, rows: Rows, *, n_workers: int, progress: Progress | None = None) -> Passed:
    """Return the features of some rows' images; given features pass through the tail only."""
    progress = progress or Progress()
    if rows.features_nd is not None:
        hidden_nd = backbone.trunk(torch.from_numpy(rows.features_nd).to(device_of(backbone)))
        progress.advance(len(hidden_nd))
        named = _named(rows, [(row, "") for row in range(len(hidden_nd))])
        return Passed(named, run_tail(backbone, hidden_nd), tuple(rows.problems))
    problems, seen, features = list(rows.problems), list[tuple[int, str]](), list[Tensor]()
    size = IMAGES_PER_READ if device_of(backbone).type == "cpu" else ACCELERATOR_BATCH
    found = _views(rows, backbone, n_workers)
    while some := list(islice(found, size)):
        batch = [one for one in some if isinstance(one, _View)]
        problems += [one for one in some if isinstance(one, Problem)]
        if batch:
            features.append(run_tail(backbone, run_trunk(backbone, torch.stack([one.pixels for one in batch]))))
            seen += [(one.row, one.content_hash) for one in batch]
        progress.advance(len(some))
    features_nd = torch.cat(features) if features else torch.zeros(0, backbone.n_features)
    return Passed(_named(rows, seen), features_nd, tuple(problems))


def _views(rows: Rows, backbone: Backbone, n_workers: int) -> Iterator[_View | Problem]:
    """Yield the centre view of each image, or why there is none, in order."""
    view = partial(_view, rows, backbone)
    n = len(rows.file_names)
    if not n_workers:
        yield from map(view, range(n))
        return
    pool = ThreadPoolExecutor(n_workers, thread_name_prefix="read")
    try:
        yield from pool.map(view, range(n))
    finally:
        pool.shutdown(cancel_futures=True)


def _view(rows: Rows, backbone: Backbone, row: int) -> _View | Problem:
    assert rows.opened is not None
    preprocessing = backbone.preprocessing
    try:
        image, content_hash = rows.opened(row, preprocessing.short_side)
    except (OSError, UnreadableError) as error:
        return Problem(rows.file_names[row], *why_unreadable(error))
    return _View(row, preprocessing.centre_view(image), content_hash)


def _named(rows: Rows, seen: list[tuple[int, str]]) -> pd.DataFrame:
    """Return the names of the images that were read: their places in the rows, and the hashes of their content."""
    kept = [row for row, _ in seen]
    file_names = [rows.file_names[row] for row in kept]
    if rows.image_ids is None:
        return _with_labels(image_table(file_names, [found for _, found in seen])[_NAMED], rows, kept)
    named = pd.DataFrame({"file_name": file_names, "image_id": [rows.image_ids[row] for row in kept]}, dtype="string")
    return _with_labels(named, rows, kept)


def _with_labels(named: pd.DataFrame, rows: Rows, kept: list[int]) -> pd.DataFrame:
    if rows.labels is None:
        return named
    return named.assign(**{LABEL: pd.Series([rows.labels[row] for row in kept], dtype="string")})
