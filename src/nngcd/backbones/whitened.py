"""Features in their main directions, whitened within the labelled classes: fewer numbers that tell more."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nngcd.backbones.backbone import QUICK_SQUARED_LENGTH, Adapter, Backbone
from nngcd.backbones.compiled import Around
from nngcd.backbones.sizes import mean_look

WHITENED_RATE = 0.03
"""Whitened features follow every step of a trained tail before them, so it learns this much slower than without. On a
folder of few images the tail's own rate made all features alike."""


class WhitenedFeatures(Around):
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
    """Return a backbone with `n_directions` features; its `WhitenedFeatures` are set later.

    Frozen features are whitened at the end of the trunk, those of a trained tail behind it; in both an adapter follows.
    """
    rate = backbone.tail_learning_rate * (1 if _is_frozen(backbone) else WHITENED_RATE)
    split = partial(_split_whitened, backbone=backbone, n_directions=n_directions)
    return replace(backbone, split=split, n_features=n_directions, tail_learning_rate=rate)


def _split_whitened(_: nn.Module, *, backbone: Backbone, n_directions: int) -> tuple[nn.Module, nn.Module]:
    trunk, tail, n_features = backbone.trunk.network, backbone.tail.network, backbone.n_features
    if _is_frozen(backbone):
        return WhitenedFeatures(trunk, n_features, n_directions), Adapter(n_directions)
    return trunk, nn.Sequential(WhitenedFeatures(tail, n_features, n_directions), Adapter(n_directions))


def _is_frozen(backbone: Backbone) -> bool:
    return any(isinstance(part, Adapter) for part in backbone.tail.modules())


def whitening_part(backbone: Backbone) -> WhitenedFeatures:
    """Return the part of a `whitened` backbone whose directions are set later."""
    parts = (*backbone.trunk.modules(), *backbone.tail.modules())
    return next(part for part in parts if isinstance(part, WhitenedFeatures))
