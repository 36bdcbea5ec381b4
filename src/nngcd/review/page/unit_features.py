"""The learned features of a run at unit length, made when they are needed: keeping a million twice takes gigabytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Ids = NDArray[np.int64]
Floats = NDArray[np.float32]
ROWS_PER_BLOCK = 8192
SHORTEST = 1e-12


class UnitFeatures:
    """Features as a run left them, usually in half precision, and the length of each."""

    def __init__(self, features_nd: Tensor) -> None:
        self._features_nd = features_nd
        self._length_n = torch.empty(len(features_nd))
        for start in range(0, len(features_nd), ROWS_PER_BLOCK):
            rows = slice(start, start + ROWS_PER_BLOCK)
            self._length_n[rows] = features_nd[rows].float().norm(dim=1).clamp_min(SHORTEST)

    def __len__(self) -> int:
        return len(self._features_nd)

    @property
    def n_features(self) -> int:
        """Number of features of an image."""
        return int(self._features_nd.shape[1])

    @property
    def digest(self) -> str:
        """The sha256 of the features."""
        return hashlib.sha256(self._features_nd.contiguous().flatten().view(torch.uint8).numpy().data).hexdigest()

    def of(self, rows: Ids) -> Floats:
        """Return (m, d) the features of some rows."""
        row_m = torch.from_numpy(rows)
        unit_md: Floats = (self._features_nd[row_m].float() / self._length_n[row_m, None]).numpy()
        return unit_md

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Give all features, some thousand rows at a time."""
        for start in range(0, len(self), ROWS_PER_BLOCK):
            rows = slice(start, start + ROWS_PER_BLOCK)
            yield rows, (self._features_nd[rows].float() / self._length_n[rows, None]).numpy()

    def similarity(self, rows: Ids, to: Floats) -> Floats:
        """Return the cosine similarity of some rows to a feature of unit length."""
        parts = [self.of(rows[start : start + ROWS_PER_BLOCK]) @ to for start in range(0, len(rows), ROWS_PER_BLOCK)]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.float32)

    def similarity_of_all(self, to: Floats) -> Floats:
        """Return (n,) the cosine similarity of every row to a feature of unit length."""
        similarity_n = np.empty(len(self), dtype=np.float32)
        for rows, unit_bd in self.blocks():
            similarity_n[rows] = unit_bd @ to
        return similarity_n

    def sum_of(self, rows: Ids) -> Floats:
        """Return (d,) the sum of some rows."""
        total = np.zeros(self.n_features, dtype=np.float32)
        for start in range(0, len(rows), ROWS_PER_BLOCK):
            total += self.of(rows[start : start + ROWS_PER_BLOCK]).sum(axis=0)
        return total
