"""What methods share that describe each cluster by its centre: the nearest centre decides."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.core.errors import ConfigError
from nngcd.methods.contract import BaseMethod, Task


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
