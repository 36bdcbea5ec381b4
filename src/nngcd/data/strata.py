"""A sample of data that is too large to train on: all labelled rows, and others drawn evenly from strata.

Strata are clusters of the features. With even draws, a rare kind of image makes up as much of the sample as a frequent
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans

from nngcd.core.seeds import numpy_generator
from nngcd.data.sampling import n_unlabelled
from nngcd.data.sources import Rows, Source

MOST_STRATA, ROWS_PER_STRATUM = 1000, 20
ROWS_FOR_STRATA = 100_000
"""Rows that strata are made from; all others join the nearest one."""
Labels = Callable[[Sequence[str], Sequence[str | None] | None], list[str | None]]
"""Returns the label of each row, from its name and the label of the data."""


@dataclass(frozen=True, slots=True, eq=False)
class DrawnRows:
    """The rows of a sample, in the order of the data."""

    features_nd: NDArray[np.float32]
    names: list[str]
    ids: list[str]
    labels: list[str | None]


def draw(source: Source, n: int, labels_of: Labels, *, seed: int = 0) -> DrawnRows:
    """Return a sample of a source of features: all labelled rows and, up to `n` rows in all, others from strata.

    Goes over the data three times; memory holds the sample and six bytes for each row.
    """
    n_rows = sum(len(rows.file_names) for rows in _rows(source)) if source.n_rows is None else source.n_rows
    key_n = numpy_generator(seed, "sample").random(n_rows, dtype=np.float32)
    strata = _strata(source, key_n, n, seed=seed)
    stratum_n = np.concatenate([_nearest(rows, strata, labels_of) for rows in _rows(source)])
    n_labelled = int((stratum_n < 0).sum())
    is_drawn = stratum_n < 0
    is_drawn[evenly(stratum_n, key_n, n_unlabelled(n, n_labelled, n_rows))] = True
    return _collect(source, is_drawn, labels_of)


def evenly(stratum_n: NDArray[np.int16], key_n: NDArray[np.float32], n: int) -> NDArray[np.int64]:
    """Return which `n` rows to draw: as many of each stratum, small ones whole; negative numbers are no stratum."""
    order = np.lexsort((key_n, stratum_n))
    order = order[stratum_n[order] >= 0]
    sizes = np.bincount(stratum_n[order]) if len(order) else np.zeros(0, dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]) if len(sizes) else sizes
    rank_n = np.arange(len(order)) - np.repeat(starts, sizes)
    # The first of every stratum, then the second of every stratum, and so on.
    chosen: NDArray[np.int64] = order[np.lexsort((key_n[order], rank_n))][:n]
    return chosen


def _rows(source: Source) -> Iterator[Rows]:
    for unit in source.units:
        yield from unit.read()


def _strata(source: Source, key_n: NDArray[np.float32], n: int, *, seed: int) -> MiniBatchKMeans:
    """Return clusters of the rows with the smallest keys."""
    n_seen = min(len(key_n), ROWS_FOR_STRATA)
    limit = np.partition(key_n, n_seen - 1)[n_seen - 1]
    start, seen = 0, list[NDArray[np.float32]]()
    for rows in _rows(source):
        assert rows.features_nd is not None
        is_seen = key_n[start : start + len(rows.file_names)] <= limit
        seen.append(rows.features_nd[is_seen])
        start += len(rows.file_names)
    n_strata = max(min(MOST_STRATA, n // ROWS_PER_STRATUM, n_seen), 1)
    state = int(numpy_generator(seed, "strata").integers(2**31))
    clusters = MiniBatchKMeans(n_strata, batch_size=4096, n_init=1, random_state=state)
    return clusters.fit(_unit(np.concatenate(seen)))


def _nearest(rows: Rows, strata: MiniBatchKMeans, labels_of: Labels) -> NDArray[np.int16]:
    """Return the stratum of each row, -1 for labelled ones."""
    assert rows.features_nd is not None
    if not len(rows.file_names):
        return np.zeros(0, dtype=np.int16)
    stratum_b: NDArray[np.int16] = strata.predict(_unit(rows.features_nd)).astype(np.int16)
    stratum_b[[label is not None for label in labels_of(rows.file_names, rows.labels)]] = -1
    return stratum_b


def _collect(source: Source, is_drawn: NDArray[np.bool_], labels_of: Labels) -> DrawnRows:
    start, features, drawn = 0, list[NDArray[np.float32]](), DrawnRows(np.zeros((0, 0), np.float32), [], [], [])
    for rows in _rows(source):
        assert rows.features_nd is not None
        own = np.flatnonzero(is_drawn[start : start + len(rows.file_names)]).tolist()
        start += len(rows.file_names)
        labels = labels_of(rows.file_names, rows.labels)
        features.append(rows.features_nd[own])
        drawn.names.extend(rows.file_names[row] for row in own)
        drawn.ids.extend((rows.image_ids or rows.file_names)[row] for row in own)
        drawn.labels.extend(labels[row] for row in own)
    return replace(drawn, features_nd=np.concatenate(features))


def _unit(features_nd: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(features_nd, axis=1, keepdims=True)
    unit_nd: NDArray[np.float32] = features_nd / np.maximum(lengths, 1e-12)
    return unit_nd
