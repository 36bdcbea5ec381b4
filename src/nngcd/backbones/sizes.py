"""Frozen features of an image seen at several sizes: their mean says more than any of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nngcd.backbones.backbone import Backbone, ScaledFeatures
from nngcd.core.errors import ConfigError


class SeveralSizes(nn.Module):
    """A network that looks at each image at several sizes: (B, 3, H, H) to one feature per size (B, S, D)."""

    side_s: Tensor

    def __init__(self, network: ScaledFeatures, sides: Sequence[int]) -> None:
        super().__init__()
        self.network = network
        self.sides = tuple(sides)
        # A buffer, so that it counts in the fingerprint of what is cached.
        self.register_buffer("side_s", torch.tensor(self.sides))

    def forward(self, images: Tensor) -> Tensor:
        """Return (B, S, D) features of images, which are as large as the largest size."""
        return torch.stack([self.network(_resized(images, side)) for side in self.sides], dim=-2)


class OfMeanLook(nn.Module):
    """A tail that is given one feature per image, or one per size, of which it takes the mean."""

    def __init__(self, tail: nn.Module) -> None:
        super().__init__()
        self.tail = tail

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the tail's (B, D) features of (B, D) or (B, S, D)."""
        features: Tensor = self.tail(mean_look(hidden))
        return features


def mean_look(hidden: Tensor) -> Tensor:
    """Return the mean direction (B, D) of features (B, S, D) of equal length, as long as these; (B, D) stays."""
    if hidden.ndim == 2:
        return hidden
    length_b1: Tensor = torch.linalg.vector_norm(hidden[:, 0], dim=-1, keepdim=True)
    return length_b1 * F.normalize(hidden.mean(1), dim=-1)


def with_sizes(backbone: Backbone, sizes: Sequence[float]) -> Backbone:
    """Return a frozen backbone that sees every view at several sizes, given as multiples of its image size.

    Views are cut at the largest size, and made smaller from there: all sizes show the same part of the image.

    Raises:
        ConfigError: the network takes images of one size only.
    """
    own = backbone.preprocessing.image_size
    sides = [round(size * own) for size in sizes]
    try:
        with torch.no_grad():
            for side in sides:
                backbone.network(torch.zeros(1, 3, side, side))
    except torch.OutOfMemoryError:
        raise
    except (AssertionError, RuntimeError) as error:
        reason = f"{backbone.name} takes images of {own} pixels only; leave them out (--set 'views.sizes=[1]')"
        raise ConfigError("views.sizes", list(sizes), reason) from error

    def split(network: nn.Module) -> tuple[nn.Module, nn.Module]:
        trunk, tail = backbone.split(network)
        assert isinstance(trunk, ScaledFeatures)
        return SeveralSizes(trunk, sides), OfMeanLook(tail)

    return replace(backbone, split=split, preprocessing=replace(backbone.preprocessing, image_size=max(sides)))


def _resized(images: Tensor, side: int) -> Tensor:
    if images.shape[-1] == side:
        return images
    return F.interpolate(images, size=(side, side), mode="bilinear", antialias=True, align_corners=False)
