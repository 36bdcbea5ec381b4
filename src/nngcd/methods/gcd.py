"""GCD: contrastive training, then semi-supervised k-means of the features (Vaze et al., CVPR 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from nngcd.core.ranges import AtLeastOne, Checked, Positive, Share, WholeNotNegative
from nngcd.losses.info_nce import info_nce
from nngcd.losses.supcon import supcon
from nngcd.methods.centres import CentreMethod, semi_supervised_centres
from nngcd.methods.contract import Batch, Overview, Task
from nngcd.methods.geometry import Contrast, Geometry, GeometryConfig, in_cosines
from nngcd.methods.heads import ProjectionHead, Prototypes


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadConfig(Checked):
    """Settings of the contrastive head; defaults are those of GCD's scripts."""

    n_hidden: AtLeastOne = 2048
    """Width of the projection head's two hidden layers."""
    n_projection: AtLeastOne = 256
    """Size of the projection."""
    n_directions: WholeNotNegative = 65536
    """Number of learned directions. Their cosines with the projection are contrasted (the last layer of DINO's head,
    which GCD keeps); 0 contrasts the projection itself, as SimGCD does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContrastConfig(HeadConfig):
    """Settings of GCD's two contrastive losses; defaults are those of its paper."""

    supervised_weight: Share = 0.35
    """Share of the supervised terms in the loss (lambda in the paper), in [0, 1]."""
    contrastive_temperature: Positive = 1.0
    """Temperature of the unsupervised contrastive loss."""
    supcon_temperature: Positive = 0.07
    """Temperature of the supervised contrastive loss."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterConfig(ContrastConfig, GeometryConfig):
    """Settings of the two losses and of semi-supervised k-means after them."""

    cluster_start: Literal["matched", "published"] = "published"
    """First centres of semi-supervised k-means: found as GCD does (published), or our way (matched)."""
    n_starts: AtLeastOne = 100
    """Starts of semi-supervised k-means; the one with the least inertia is kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CentreConfig(ClusterConfig):
    """The same for a method that assigns the nearest centre."""

    temperature: Positive = 0.1
    """Temperature that turns distances into probabilities; changes confidences, never an assignment."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(CentreConfig):
    """GCD's settings."""

    split_at_end: bool = False
    """Whether to search known clusters at the end for hidden new categories. Each one found gets the centre freed by
    merging the two most similar new clusters (paper: no)."""
    split_level: Share = 0.2
    """False discovery rate of the test of all known clusters: the expected share of wrong splits."""


class Method(CentreMethod):
    """GCD. Views of an image and labelled images of a class attract each other; the head is then discarded."""

    config: ClusterConfig

    def __init__(self, config: ClusterConfig, task: Task) -> None:
        super().__init__(config, task)
        self.geometry = Geometry(config)
        self.head = ContrastHead(config, task)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the two contrastive terms: GCD, Eq. (3)."""
        z_vbd, contrast = self.head(batch.features_vbd), self.geometry.at(batch.moment)
        return contrast_terms(z_vbd, batch.labels_b, self.config, contrast)

    @torch.no_grad()
    def settle(self, overview: Overview) -> None:
        """Find the centres of the normalised features, labelled images held in their class."""
        self.centres_kd.copy_(cluster_centres(overview, self.task, self.config))
        self.search_at_end(overview)


class ContrastHead(nn.Module):
    """The head of contrastive losses: a projection, or its cosines with many learned directions."""

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
        """Return the vectors to contrast."""
        contrasted_vbd: Tensor = self.directions(self.projection(features_vbd))
        return contrasted_vbd


def contrast_terms(
    z_vbd: Tensor, labels_b: Tensor, config: ContrastConfig, contrast: Contrast = in_cosines
) -> dict[str, Tensor]:
    """Return the weighted contrast of all images, GCD, Eq. (1), and that of the labelled ones, Eq. (2)."""
    every = contrast(partial(info_nce, z_vbd), config.contrastive_temperature)
    labelled = contrast(partial(supcon, z_vbd, labels_b), config.supcon_temperature)
    return {"contrast": (1 - config.supervised_weight) * every, "supcon": config.supervised_weight * labelled}


def cluster_centres(overview: Overview, task: Task, config: ClusterConfig) -> Tensor:
    """Return the centres of semi-supervised k-means of the normalised features; centre k < n_old is old class k."""
    return semi_supervised_centres(overview, task.n_clusters, init=config.cluster_start, n_init=config.n_starts)
