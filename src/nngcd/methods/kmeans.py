"""k-means on the pre-trained features, the baseline every table starts with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from nngcd.clustering.kmeans import KMeans
from nngcd.core.ranges import AtLeastOne, Checked, Positive, Share
from nngcd.methods.centres import CentreMethod
from nngcd.methods.contract import Overview
from nngcd.metrics.matching import UNMATCHED, match_clusters


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Checked):
    """k-means' settings."""

    cluster_on: Literal["all", "unlabelled"] = "all"
    """Images that are clustered: all, or only the unlabelled ones (as in GCD's code); labelled ones then join the
    nearest centre."""
    n_starts: AtLeastOne = 10
    """Random starts; the one with the smallest inertia is kept."""
    temperature: Positive = 0.1
    """Temperature that turns distances into probabilities; changes confidences, never an assignment."""
    split_at_end: bool = False
    """Whether to search known clusters at the end for hidden new categories. Each one found gets the centre freed by
    merging the two most similar new clusters (published baselines: no)."""
    split_level: Share = 0.2
    """False discovery rate of the test of all known clusters: the expected share of wrong splits."""


class Method(CentreMethod):
    """k-means of normalised features; labels only name the known clusters and decide which of them to split."""

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
        self.search_at_end(overview)

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
