"""GCD: contrastive training, then semi-supervised k-means of the features (Vaze et al., CVPR 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from nngcd.core.ranges import check_at_least_one, check_not_negative, check_positive, check_share
from nngcd.heads import ProjectionHead, Prototypes
from nngcd.losses.info_nce import info_nce
from nngcd.losses.supcon import supcon
from nngcd.methods.centres import CentreMethod, semi_supervised_centres
from nngcd.methods.contract import Batch, Overview, Task


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadConfig:
    """Settings of the head that contrastive losses see; defaults are those of GCD's scripts."""

    n_hidden: int = 2048
    """Width of the projection head's two hidden layers."""
    n_projection: int = 256
    """Size of the projection."""
    n_directions: int = 65536
    """Learned directions whose cosines with the projection are what is contrasted (the last layer of DINO's head, which
    GCD keeps); 0 contrasts the projection itself, as SimGCD does."""

    def __post_init__(self) -> None:
        check_at_least_one(self, "n_hidden", "n_projection")
        check_not_negative(self, "n_directions")


@dataclass(frozen=True, kw_only=True, slots=True)
class ContrastConfig(HeadConfig):
    """Settings of GCD's two contrastive losses; defaults are those of its paper."""

    supervised_weight: float = 0.35
    """Share of the supervised terms in the loss (lambda in the paper), in [0, 1]."""
    contrastive_temperature: float = 1.0
    """Temperature of the unsupervised contrastive loss."""
    supcon_temperature: float = 0.07
    """Temperature of the supervised contrastive loss."""

    def __post_init__(self) -> None:
        HeadConfig.__post_init__(self)
        check_share(self, "supervised_weight")
        check_positive(self, "contrastive_temperature", "supcon_temperature")


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterConfig(ContrastConfig):
    """Settings of the two losses and of semi-supervised k-means after them."""

    cluster_start: Literal["matched", "published"] = "published"
    """How semi-supervised k-means finds its first centres: GCD's own way, or ours."""
    n_starts: int = 100
    """Starts of semi-supervised k-means; the one with the least inertia is kept."""

    def __post_init__(self) -> None:
        ContrastConfig.__post_init__(self)
        check_at_least_one(self, "n_starts")


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(ClusterConfig):
    """GCD's settings."""

    temperature: float = 0.1
    """Turns distances into probabilities; it changes confidences, never an assignment."""

    def __post_init__(self) -> None:
        ClusterConfig.__post_init__(self)
        check_positive(self, "temperature")


class Method(CentreMethod):
    """GCD. Views of an image and labelled images of a class attract each other; the head is then discarded."""

    config: ClusterConfig

    def __init__(self, config: ClusterConfig, task: Task) -> None:
        super().__init__(config, task)
        self.head = ContrastHead(config, task)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the two contrastive terms: GCD, Eq. (3)."""
        return contrast_terms(self.head(batch.features_vbd), batch.labels_b, self.config)

    @torch.no_grad()
    def settle(self, overview: Overview) -> None:
        """Find the centres of the normalised features, labelled images held in their class."""
        self.centres_kd.copy_(cluster_centres(overview, self.task, self.config))


class ContrastHead(nn.Module):
    """What contrastive losses see of a feature: its projection, or the projection's cosines with many directions."""

    def __init__(self, config: HeadConfig, task: Task) -> None:
        super().__init__()
        self.projection = ProjectionHead(
            task.n_features,
            n_hidden=config.n_hidden,
            n_out=config.n_projection,
            activation="identity",
            generator=task.generator,
        )
        n_directions = config.n_directions
        self.directions = (
            Prototypes(config.n_projection, n_directions, generator=task.generator) if n_directions else nn.Identity()
        )

    def forward(self, features_vbd: Tensor) -> Tensor:
        """Return what is contrasted."""
        contrasted_vbd: Tensor = self.directions(self.projection(features_vbd))
        return contrasted_vbd


def contrast_terms(z_vbd: Tensor, labels_b: Tensor, config: ContrastConfig) -> dict[str, Tensor]:
    """Return the weighted contrast of all images, GCD, Eq. (1), and that of the labelled ones, Eq. (2)."""
    contrast = info_nce(z_vbd, temperature=config.contrastive_temperature)
    labelled = supcon(z_vbd, labels_b, temperature=config.supcon_temperature)
    return {"contrast": (1 - config.supervised_weight) * contrast, "supcon": config.supervised_weight * labelled}


def cluster_centres(overview: Overview, task: Task, config: ClusterConfig) -> Tensor:
    """Return the centres of semi-supervised k-means of the normalised features; centre k < n_old is old class k."""
    return semi_supervised_centres(overview, task.n_clusters, init=config.cluster_start, n_init=config.n_starts)
