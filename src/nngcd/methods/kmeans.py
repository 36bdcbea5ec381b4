"""k-means on the pre-trained features, the baseline every table starts with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from nngcd.clustering.kmeans import KMeans
from nngcd.core.ranges import check_at_least_one, check_positive
from nngcd.methods.centres import CentreMethod
from nngcd.methods.contract import Overview
from nngcd.metrics.matching import UNMATCHED, match_clusters


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """k-means' settings."""

    n_starts: int = 10
    """Random starts; the one with the smallest inertia is kept."""
    temperature: float = 0.1
    """Turns distances into probabilities; it changes confidences, never an assignment."""

    def __post_init__(self) -> None:
        check_at_least_one(self, "n_starts")
        check_positive(self, "temperature")


class Method(CentreMethod):
    """k-means of all images' normalised features; labels only decide which cluster gets which known name."""

    config: Config
    trains = False

    def settle(self, overview: Overview) -> None:
        """Cluster, then number the clusters so that cluster k < n_old is the one most like old class k."""
        k_means = KMeans(self.task.n_clusters, n_init=self.config.n_starts, random_state=overview.seed)
        k_means.fit(F.normalize(overview.features_nd, dim=-1))
        order = self._order(k_means.labels_.cpu().numpy(), overview.labels_n.cpu().numpy())
        self.centres_kd.copy_(k_means.cluster_centers_[torch.from_numpy(order)])

    def _order(self, cluster_n: NDArray[np.int64], labels_n: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the clusters in their final order: first the match of each old class, then the others."""
        is_labelled = labels_n >= 0
        match_k = np.full(self.task.n_clusters, UNMATCHED)
        matched = match_clusters(cluster_n[is_labelled], labels_n[is_labelled])
        match_k[: len(matched)] = matched
        left_over = iter(np.flatnonzero(match_k == UNMATCHED))
        # A class whose images all lie in other classes' clusters takes one of the clusters left over.
        first = [next(iter(np.flatnonzero(match_k == c)), None) for c in range(self.task.n_old)]
        ordered = [next(left_over) if cluster is None else cluster for cluster in first]
        return np.array([*ordered, *left_over], dtype=np.int64)
