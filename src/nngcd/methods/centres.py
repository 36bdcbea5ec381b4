"""What methods share that describe each cluster by its centre: the nearest centre decides."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.clustering.points import run_shards
from nngcd.clustering.semi_supervised_kmeans import SemiSupervisedKMeans
from nngcd.core import processes
from nngcd.core.errors import ConfigError
from nngcd.methods.contract import BaseMethod, Overview, Task


def semi_supervised_centres(
    overview: Overview, n_clusters: int, *, init: Literal["matched", "published"] = "matched", n_init: int = 10
) -> Tensor:
    """Return the centres of semi-supervised k-means of the normalised features; centre k < n_old is old class k.

    Of several processes each clusters its share of the images, and all find the same centres.
    """
    k_means = SemiSupervisedKMeans(
        n_clusters, init=init, n_init=n_init, random_state=overview.seed, shards=run_shards()
    )  # fmt: skip
    own = processes.share(len(overview.features_nd))
    return k_means.fit(F.normalize(overview.features_nd[own], dim=-1), overview.labels_n[own]).cluster_centers_


def check_centre_settings(*, n_starts: int, temperature: float) -> None:
    """Raise `ConfigError` for settings that no method with centres can use."""
    if n_starts < 1:
        raise ConfigError("n_starts", n_starts, "must be at least 1")
    if temperature <= 0:
        raise ConfigError("temperature", temperature, "must be positive")


class CentreMethod(BaseMethod):
    """A method whose result is one centre per cluster, in the space of normalised features."""

    def __init__(self, config: Any, task: Task) -> None:  # noqa: ANN401 (each method has its own Config)
        super().__init__(config, task)
        self.register_buffer("centres_kd", torch.zeros(task.n_clusters, task.n_features))
        self.centres_kd: Tensor

    def assign(self, features_nd: Tensor) -> Tensor:
        """Return scores whose arg max is the nearest centre: -|x - c|^2 / 2 up to what is the same for all centres."""
        unit_nd = F.normalize(features_nd, dim=-1)
        scores_nk: Tensor = unit_nd @ self.centres_kd.T - self.centres_kd.square().sum(-1) / 2
        temperature: float = self.config.temperature
        return scores_nk / temperature
