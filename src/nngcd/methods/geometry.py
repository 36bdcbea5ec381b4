"""Geometry: where contrastive losses and classifiers compare, by directions or in the Poincare ball (HypCD).

Liu, He and Han, CVPR 2025. A method has it by its settings (`GeometryConfig`), a `Geometry` for its contrast, and
`prototypes_in` for its classifier; `loss.geometry=poincare` then turns it hyperbolic (docs/paper/methods.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from nngcd.core.errors import ConfigError
from nngcd.core.ranges import Checked, Positive, Share
from nngcd.losses.pairs import Similarity, cosines, distances, unit
from nngcd.losses.poincare import (
    ball_distances,
    clipped,
    in_ball,
    kept_in_ball,
    moebius_sum,
    point_distances,
    reach,
)
from nngcd.methods.contract import Moment
from nngcd.methods.heads import Prototypes

LEAST_CURVATURE, MOST_CURVATURE = 1e-4, 10.0
"""Bounds of a learned curvature; at the first, the ball is flat to float32."""


# Without slots, so that a settings class can have it next to another base.
@dataclass(frozen=True, kw_only=True)
class GeometryConfig(Checked):
    """Settings of the geometry; the defaults change nothing."""

    geometry: Literal["cosine", "poincare"] = "cosine"
    """Space of contrast and classifier: directions (cosine, as the methods were published), or the hyperbolic Poincare
    ball (HypCD). The settings from `curvature` to `bias_curvature` count only in the ball."""
    curvature: Positive = 0.1
    """The curvature of the ball is minus this number; its radius is one over the square root of this number."""
    learn_curvature: bool = False
    """Whether the curvature is learned, starting at `curvature`, separately for contrast and classifier."""
    clip_radius: Positive = 2.0
    """Maximum length of a vector that enters the ball; longer ones are clipped. HypCD uses 1.2 to 2.3."""
    distance_share: Share = 1.0
    """Share of distances in the contrast after the last epoch. It grows from 0; the rest are cosines."""
    angle_scale: Positive = 1.0
    """Factor on the temperatures of the cosine part of the contrast; Hyp-SimGCD uses 0.3 to 0.4."""
    bias_curvature: Literal["ball", "one"] = "ball"
    """Curvature with which the classifier adds its bias: that of the ball, or 1, a mistake in HypCD's code."""


def refuse_ball(config: GeometryConfig, reason: str) -> None:
    """Raise `ConfigError` when the settings of a method that knows only cosines ask for the ball."""
    if config.geometry != "cosine":
        raise ConfigError("geometry", config.geometry, f"{reason}; leave it out")


class Loss(Protocol):
    """A contrastive loss that has its vectors already."""

    def __call__(self, *, temperature: float, similarity: Similarity) -> Tensor:
        """Return the loss of some similarities."""
        ...


Contrast = Callable[[Loss, float], Tensor]
"""Takes a loss at a temperature."""


def in_cosines(loss: Loss, temperature: float) -> Tensor:
    """Return a loss of cosines, as the methods were published."""
    return loss(temperature=temperature, similarity=cosines)


def minus_distances(z_vbd: Tensor) -> Tensor:
    """Return minus the Euclidean distances of the vectors as they are."""
    return -distances(z_vbd)


def in_distances(loss: Loss, temperature: float) -> Tensor:
    """Return a loss of Euclidean distances, as SelEx was published."""
    return loss(temperature=temperature, similarity=minus_distances)


class Curvature(nn.Module):
    """The curvature of one ball, fixed or learned."""

    def __init__(self, config: GeometryConfig) -> None:
        super().__init__()
        # Its logarithm learns, so that it stays positive.
        self.log = nn.Parameter(torch.tensor(math.log(config.curvature))) if config.learn_curvature else None
        self.register_buffer("fixed", torch.tensor(config.curvature), persistent=False)
        self.fixed: Tensor

    def forward(self) -> Tensor:
        """Return c."""
        if self.log is None:
            return self.fixed
        return self.log.clamp(math.log(LEAST_CURVATURE), math.log(MOST_CURVATURE)).exp()


class Geometry(nn.Module):
    """The space in which a method contrasts."""

    def __init__(self, config: GeometryConfig) -> None:
        super().__init__()
        self.config = config
        self.curvature = Curvature(config) if config.geometry == "poincare" else None

    def at(self, moment: Moment) -> Contrast:
        """Return how to take contrastive losses in an epoch: by cosines at first, in the ball ever more by distances.

        The cosines of points in the ball are those of the vectors: a point lies in its vector's direction.
        """
        return in_cosines if self.curvature is None else self.mixed(in_cosines, self.closeness, moment)

    def mixed(self, straight: Contrast, closeness: Similarity, moment: Moment) -> Contrast:
        """Return how to take losses in the ball: in the straight way, and ever more by distances in the ball."""
        share = self.config.distance_share * min((moment.epoch + 1) / moment.n_epochs, 1.0)

        def mix(loss: Loss, temperature: float) -> Tensor:
            straight_loss = straight(loss, self.config.angle_scale * temperature)
            return torch.lerp(straight_loss, loss(temperature=temperature, similarity=closeness), share)

        return mix

    def closeness(self, z_vbd: Tensor) -> Tensor:
        """Return minus the distances of the vectors' points in the ball."""
        assert self.curvature is not None
        return -ball_distances(z_vbd, self.curvature(), clip_radius=self.config.clip_radius)


class PointGeometry(Geometry):
    """The space of a method that contrasts by distances: between vectors of length 1, or points of the ball."""

    def points(self, z_vbd: Tensor) -> Tensor:
        """Return what the vectors are in this space."""
        if self.curvature is None:
            return unit(z_vbd)
        c = self.curvature()
        return in_ball(clipped(z_vbd, reach(c).clamp_max(self.config.clip_radius)), c)

    def at(self, moment: Moment) -> Contrast:
        """Return how to take losses of points in an epoch: by straight distances, ever more by those in the ball."""
        return in_distances if self.curvature is None else self.mixed(in_distances, self.closeness, moment)

    def closeness(self, x_vbd: Tensor) -> Tensor:
        """Return minus the distances of points in the ball, which may have lost their last coordinates."""
        assert self.curvature is not None
        return -point_distances(x_vbd, self.curvature())


class BallPrototypes(Prototypes):
    """A hyperbolic linear layer: the logits of a feature are the coordinates of a point in a ball of K dimensions.

    W (x) exp_0(u), HypCD's product of a matrix and a point, is exp_0(W u), which needs no artanh (tested). Lengths
    count here: prototypes start as torch's linear layers do, as those of the cosine classifier.
    """

    def __init__(
        self,
        config: GeometryConfig,
        n_features: int,
        n_clusters: int,
        *,
        generator: torch.Generator,
        learning_rate: float | None = None,
        most: int | None = None,
    ) -> None:
        super().__init__(n_features, n_clusters, generator=generator, learning_rate=learning_rate, most=most)
        self.config, self.curvature, bound = config, Curvature(config), 1 / math.sqrt(n_features)
        bias_k = torch.zeros(len(self.weight))
        bias_k[:n_clusters].uniform_(-bound, bound, generator=generator)
        self.bias = nn.Parameter(bias_k)

    @torch.no_grad()
    def resize(self, n_clusters: int) -> None:
        """Change how many prototypes there are; new ones have no bias."""
        self.bias[min(int(self.n_used), n_clusters) :] = 0
        super().resize(n_clusters)

    @torch.no_grad()
    def trim(self) -> None:
        """Remove unused rows."""
        self.bias = nn.Parameter(self.bias[: int(self.n_used)].clone(), requires_grad=self.bias.requires_grad)
        super().trim()

    @torch.no_grad()
    def turn(self, direction_kd: Tensor, cluster_k: Tensor | None = None) -> None:
        """Turn prototypes towards new directions, and take their bias away."""
        super().turn(direction_kd, cluster_k)
        self.bias[: int(self.n_used)] = 0 if cluster_k is None else self.bias.index_fill(0, cluster_k, 0)[: self.n_used]

    def forward(self, features_vbd: Tensor) -> Tensor:
        """Return the logits of features with any leading axes."""
        c = self.curvature()
        inner_vbk = clipped(features_vbd, reach(c).clamp_max(self.config.clip_radius)) @ self.used_kd.T
        bias_k = in_ball(clipped(self.bias[: inner_vbk.shape[-1]], reach(c)), c)
        added = c if self.config.bias_curvature == "ball" else torch.ones_like(c)
        return kept_in_ball(moebius_sum(in_ball(clipped(inner_vbk, reach(c)), c), bias_k, added), c)


def prototypes_in(config: GeometryConfig) -> Callable[..., Prototypes]:
    """Return what makes the prototypes of a classifier in the geometry of the settings."""
    return Prototypes if config.geometry == "cosine" else partial(BallPrototypes, config)
