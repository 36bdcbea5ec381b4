"""k-means on the pre-trained features, the baseline every table starts with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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

    cluster_on: Literal["all", "unlabelled"] = "all"
    """Which images are clustered: all, or the unlabelled ones (as in GCD's code); labelled ones then join the nearest
    centre."""
    n_starts: int = 10
    """Random starts; the one with the smallest inertia is kept."""
    temperature: float = 0.1
    """Turns distances into probabilities; it changes confidences, never an assignment."""

    def __post_init__(self) -> None:
        check_at_least_one(self, "n_starts")
        check_positive(self, "temperature")


class Method(CentreMethod):
    """k-means of normalised features; labels only decide which cluster gets which known name."""

    config: Config
    trains = False

    def settle(self, overview: Overview) -> None:
        """Cluster, then number the clusters so that cluster k < n_old is the one most like old class k."""
        k_means = KMeans(self.task.n_clusters, n_init=self.config.n_starts, random_state=overview.seed)
        unit_nd, is_labelled_n = F.normalize(overview.features_nd, dim=-1), overview.labels_n >= 0
        k_means.fit(unit_nd if self.config.cluster_on == "all" else unit_nd[~is_labelled_n])
        cluster_m = k_means.predict(unit_nd)[is_labelled_n]
        order = self._order(cluster_m.cpu().numpy(), overview.labels_n[is_labelled_n].cpu().numpy())
        self.centres_kd.copy_(k_means.cluster_centers_[torch.from_numpy(order)])

    def _order(self, cluster_m: NDArray[np.int64], label_m: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the clusters in their final order: first the match of each old class, then the others.

        Args:
            cluster_m: cluster of each labelled image.
            label_m: their labels.
        """
        match_k = np.full(self.task.n_clusters, UNMATCHED)
        matched = match_clusters(cluster_m, label_m)
        match_k[: len(matched)] = matched
        left_over = iter(np.flatnonzero(match_k == UNMATCHED))
        # A class whose images all lie in other classes' clusters takes one of the clusters left over.
        first = [next(iter(np.flatnonzero(match_k == c)), None) for c in range(self.task.n_old)]
        ordered = [next(left_over) if cluster is None else cluster for cluster in first]
        return np.array([*ordered, *left_over], dtype=np.int64)
