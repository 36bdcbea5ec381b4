"""What a method is: its settings, its modules, its loss and its assignment; nothing about optimisers or devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """What a method is told when it is made."""

    n_features: int
    n_clusters: int
    """K: old and new categories together."""
    n_old: int
    """How many categories have labels; cluster k < n_old is old class k."""
    generator: torch.Generator
    """The only source of randomness for initial weights and clustering."""
    sparse_weights: tuple[Tensor, ...] = ()
    """The weights of the backbone's tail that a sparse regulariser may touch."""


class Moment(NamedTuple):
    """How far training is."""

    epoch: int
    n_epochs: int
    step: int
    """Counted over the whole run, from 0."""
    n_steps: int


class Batch(NamedTuple):
    """One training step's images: V views each, as features of the trained tail."""

    features_vbd: Tensor
    labels_b: Tensor
    """-1 for unlabelled images."""
    moment: Moment


class BaseMethod(nn.Module):
    """A way to put images into categories. A new method is one file that defines `Config` and `Method(BaseMethod)`."""

    trains: ClassVar[bool] = True
    """False for methods that only cluster: they are `settle`d without any training."""

    def __init__(self, config: Any, task: Task) -> None:  # noqa: ANN401 (each method has its own Config)
        super().__init__()
        self.config = config
        self.task = task

    @property
    def starts_from_features(self) -> bool:
        """Whether `start` wants to see the images' features before training, which costs a pass over the images."""
        return False

    def start(self, features_nd: Tensor, labels_n: Tensor) -> None:
        """See every image once before training, for example to place prototypes. Default: nothing."""

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the weighted terms of the loss by name; training adds them up, logs and plots them."""
        raise NotImplementedError

    def after_step(self, moment: Moment) -> None:
        """Do what follows an optimiser step, for example move a teacher. Default: nothing."""

    def settle(self, features_nd: Tensor, labels_n: Tensor) -> None:
        """See every image once when training is over; clustering methods find their centres here. Default: nothing."""

    def assign(self, features_nd: Tensor) -> Tensor:
        """Return scores_nk: their softmax is the probability of each cluster, their arg max the assignment."""
        raise NotImplementedError
