"""Features in their main directions, whitened within the labelled classes: fewer numbers that tell more."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nngcd.backbones.backbone import QUICK_SQUARED_LENGTH, Adapter, Backbone
from nngcd.backbones.sizes import mean_look

WHITENED_RATE = 0.03
"""Whitened features follow every step of a trained tail before them, so it learns this much slower than without. On a
folder of few images the tail's own rate made all features alike."""


class WhitenedFeatures(nn.Module):
    """A network's unit features less their mean, mapped to fewer directions, at the length of effort quick."""

    mean_d: Tensor
    map_de: Tensor

    def __init__(self, network: nn.Module, n_features: int, n_directions: int) -> None:
        super().__init__()
        self.network = network
        # Filled once the features of the images are known, and part of a saved model.
        self.register_buffer("mean_d", torch.zeros(n_features))
        self.register_buffer("map_de", torch.eye(n_features, n_directions))

    def forward(self, images: Tensor) -> Tensor:
        """Return (B, E) features of images."""
        return self.whiten(mean_look(self.network(images)))

    def whiten(self, features_bd: Tensor) -> Tensor:
        """Return (B, E) features of features."""
        # Directions of little variance are made as large as the others, and the rounding of half precision with them.
        with torch.autocast(features_bd.device.type, enabled=False):
            unit_bd = F.normalize(features_bd.float(), dim=-1)
            white_be: Tensor = (unit_bd - self.mean_d) @ self.map_de
            return F.normalize(white_be, dim=-1) * math.sqrt(QUICK_SQUARED_LENGTH)


def whitened(backbone: Backbone, n_directions: int) -> Backbone:
    """Return a backbone with `n_directions` features; what they are is for its `WhitenedFeatures` to be told.

    Frozen features are whitened at the end of the trunk, those of a trained tail behind it; in both an adapter follows.
    """
    trunk, tail = backbone.trunk.network, backbone.tail.network
    is_frozen = any(isinstance(part, Adapter) for part in tail.modules())
    n_features = backbone.n_features

    def split(_: nn.Module) -> tuple[nn.Module, nn.Module]:
        if is_frozen:
            return WhitenedFeatures(trunk, n_features, n_directions), Adapter(n_directions)
        return trunk, nn.Sequential(WhitenedFeatures(tail, n_features, n_directions), Adapter(n_directions))

    rate = backbone.tail_learning_rate * (1 if is_frozen else WHITENED_RATE)
    return replace(backbone, split=split, n_features=n_directions, tail_learning_rate=rate)


def whitening_part(backbone: Backbone) -> WhitenedFeatures:
    """Return the part of a `whitened` backbone that is to be told the directions."""
    parts = (*backbone.trunk.modules(), *backbone.tail.modules())
    return next(part for part in parts if isinstance(part, WhitenedFeatures))
