"""Nearest mean: the smallest method there is. Copied into src/nngcd/methods/, it is `--method nearest_mean`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.clustering.kmeans import KMeans
from nngcd.methods.contract import BaseMethod, Overview, Task


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """Its settings; the string under each field becomes its help."""

    far_share: float = 0.5
    """Share of the unlabelled images, those farthest from every known mean, that new categories are made of."""
    temperature: float = 0.05
    """Turns similarities into probabilities; it never changes an assignment."""


class Method(BaseMethod):
    """The mean of its labelled images is a known category; k-means of the images far from all means finds new ones."""

    config: Config
    trains = False

    def __init__(self, config: Config, task: Task) -> None:
        super().__init__(config, task)
        self.register_buffer("means_kd", torch.zeros(task.n_clusters, task.n_features))  # saved with the model

    def settle(self, overview: Overview) -> None:
        """Look at all images once and find one mean per category, known categories first."""
        unit_nd, n_old = F.normalize(overview.features_nd, dim=-1), self.task.n_old
        for known in range(n_old):
            self.means_kd[known] = F.normalize(unit_nd[overview.labels_n == known].mean(0), dim=0)
        unlabelled_md = unit_nd[overview.labels_n < 0]
        nearest_m = (unlabelled_md @ self.means_kd[:n_old].T).amax(-1)
        far_md = unlabelled_md[nearest_m <= nearest_m.quantile(self.config.far_share)]
        k_means = KMeans(self.task.n_clusters - n_old, n_init=10, random_state=overview.seed).fit(far_md)
        self.means_kd[n_old:] = F.normalize(k_means.cluster_centers_, dim=-1)

    def assign(self, features_nd: Tensor) -> Tensor:
        """Return scores; their softmax is the probability of each category."""
        scores_nk: Tensor = F.normalize(features_nd, dim=-1) @ self.means_kd.T
        return scores_nk / self.config.temperature
