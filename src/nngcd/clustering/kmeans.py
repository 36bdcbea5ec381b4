"""k-means as matrix multiplication: all starts advance together, one block of rows at a time."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

import torch
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from nngcd.clustering.lloyd import Starts, lloyd, scores
from nngcd.clustering.points import (
    ONE_PROCESS,
    Points,
    Rows,
    Shards,
    as_labels,
    as_rows,
    check_finite,
    check_settings,
    check_squares,
    prepare,
    total,
)
from nngcd.clustering.seeding import add_centres
from nngcd.core.errors import ConfigError, DataError
from nngcd.core.seeds import torch_generator


class Centroids(ClusterMixin, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """The fitted attributes, under scikit-learn's names: tensors on the device of the rows."""

    block_size: int
    shards: Shards | None
    cluster_centers_: Tensor
    labels_: Tensor
    inertia_: float
    """Sum over the rows of the squared distance to the centre of their cluster."""
    n_iter_: int

    def _prepared(self, X: Rows, y: Rows | None = None) -> Points:  # noqa: N803 (scikit-learn's name)
        """Return the points to fit, and keep what scikit-learn keeps of them: number and names of the features."""
        row_nd = as_rows(X)
        label_n = None if y is None else as_labels(y, len(row_nd))
        points = prepare(row_nd, label_n, self.block_size, self.shards or ONE_PROCESS)
        validate_data(self, X, skip_check_array=True)
        return points

    def _keep_best(self, points: Points, starts: Starts) -> None:
        centres_kd, self.labels_, self.inertia_, n_iter = min(zip(*starts, strict=True), key=lambda start: start[2])
        self.cluster_centers_, self.n_iter_ = centres_kd + points.mean_d, int(n_iter)

    @abstractmethod
    def fit(self, X: Rows, y: Rows | None = None) -> Centroids:  # noqa: N803 (scikit-learn's name)
        """Find the clusters of the rows."""

    def fit_predict(self, X: Rows, y: Rows | None = None) -> Tensor:  # noqa: N803 (scikit-learn's name)
        """Return the cluster of each row, after fitting with the labels, which `ClusterMixin` would leave out."""
        return self.fit(X, y).labels_

    def predict(self, X: Rows) -> Tensor:  # noqa: N803 (scikit-learn's name)
        """Return the nearest centre of each row; raise `DataError` where it cannot be determined."""
        check_is_fitted(self)
        origin_d = self.cluster_centers_.mean(0)
        centres_rkd = (self.cluster_centers_ - origin_d)[None]
        row_nd = as_rows(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        # Before the cast to the centres' type, which makes numbers that are too large for it infinite.
        check_finite(torch.stack([end for x_bd in torch.split(row_nd, self.block_size) for end in x_bd.aminmax()]))
        nearest, is_told = [], []
        for x_bd in torch.split(row_nd.to(centres_rkd), self.block_size):
            from_origin_bd = x_bd - origin_d
            score_bk = scores(from_origin_bd, centres_rkd)[:, 0]
            nearest.append(score_bk.argmax(-1))
            # Infinite or NaN where a score or a square is; to ask that of each would take three times as long.
            sum_b, length_b = score_bk.sum(1), torch.linalg.vector_norm(from_origin_bd, dim=1)
            is_told.append(torch.isfinite(sum_b) & torch.isfinite(length_b))
        check_squares(torch.cat(is_told), row_nd)
        return torch.cat(nearest)


@dataclass(eq=False)
class KMeans(Centroids):
    """k-means with scikit-learn's conventions, for tensors on any device and for numpy arrays; the seed is a number.

    Memory: a centred copy of the rows, a few numbers per row and start, `block_size * n_init * n_clusters` scores.
    """

    n_clusters: int
    _: KW_ONLY
    init: Literal["k-means++", "greedy-k-means++"] | Rows = "greedy-k-means++"
    """Choice of the first centres: drawn in proportion to the squared distance (Arthur & Vassilvitskii 2007); the best
    of 2 + log K such draws, which scikit-learn calls k-means++ and which misses far fewer clusters (`test_kmeans.py`);
    or the centres themselves, which makes one start."""
    n_init: int = 10
    """Starts; the one with the least inertia is kept."""
    max_iter: int = 300
    tol: float = 1e-4
    """A start has settled when its centres' squared moves sum to at most this share of a feature's mean variance."""
    random_state: int = 0
    block_size: int = 4096
    """Rows per matrix product; changes memory and speed, not the result."""
    shards: Shards | None = field(default=None, repr=False)
    """Spread of the rows over processes; None: this process has them all."""

    def fit(self, X: Rows, y: object = None) -> KMeans:  # noqa: N803 (scikit-learn's names; no label is used)
        """Find the clusters of the rows; raise `ConfigError` or `DataError` where settings or rows cannot be used."""
        points = self._prepared(X)
        self._keep_best(points, self.fit_starts(points))
        return self

    def fit_starts(self, points: Points) -> Starts:
        """Return what every start finds in rows that are prepared already."""
        check_settings(points, self)
        limit = self.tol * total(points, points.norm_n) / (points.n_total * len(points.mean_d))
        start_rkd = self._first_centres(points)
        return lloyd(points, start_rkd, lambda move_rk: move_rk.square().sum(1) <= limit, self.max_iter)

    def _first_centres(self, points: Points) -> Tensor:
        if not isinstance(self.init, str):
            return given_centres(points, self.init, self.n_clusters)
        n_candidates = {"k-means++": 1, "greedy-k-means++": 2 + int(math.log(self.n_clusters))}
        if self.init not in n_candidates:
            raise ConfigError("init", self.init, f"must be {' or '.join(n_candidates)}, or the centres")
        generator = torch_generator(self.random_state, "k-means++")
        none_rkd = points.x_nd.new_empty(self.n_init, 0, len(points.mean_d))
        return add_centres(points, none_rkd, self.n_clusters, generator, n_candidates=n_candidates[self.init])


def given_centres(points: Points, centres: Rows, n_clusters: int) -> Tensor:
    """Return as rkd the one start from centres that are given; raise `ConfigError` where they do not fit the rows."""
    shape = (n_clusters, len(points.mean_d))
    try:
        centres_kd = as_rows(centres).to(points.x_nd)
    except (DataError, TypeError) as error:
        given = getattr(centres, "shape", type(centres).__name__)
        raise ConfigError("init", given, f"must be the name of a start or centres of shape {shape}; {error}") from None
    if centres_kd.shape != shape:
        raise ConfigError("init", tuple(centres_kd.shape), f"must be {shape}: clusters, features")
    is_bad_k = ~torch.isfinite(centres_kd).all(1)
    if is_bad_k.any():
        first = int(is_bad_k.nonzero()[0])
        raise ConfigError("init", shape, f"centre {first} has NaN or infinite values; correct it")
    return (centres_kd - points.mean_d)[None]
