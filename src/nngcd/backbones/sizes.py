"""An image seen at several sizes: the mean of its features says more than any of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nngcd.backbones.backbone import Backbone, ScaledFeatures
from nngcd.backbones.compiled import Around
from nngcd.core.errors import ConfigError
from nngcd.core.memory import is_out_of_memory

ONE_SIZE = "leave them out (--set 'views.sizes=[1]')"
"""The way out where a network cannot see several sizes."""


class SeveralSizes(Around):
    """A network that looks at each image at several sizes: (B, 3, H, H) to one feature per size (B, S, D).

    Maps of a network that is cut before its last stage are put into one strip, (B, C, 1, cells of all sizes).
    """

    side_s: Tensor

    def __init__(self, network: nn.Module, sides: Sequence[int]) -> None:
        super().__init__()
        self.network = network
        self.sides = tuple(sides)
        # A buffer, so that it counts in the fingerprint of what is cached.
        self.register_buffer("side_s", torch.tensor(self.sides))

    def forward(self, images: Tensor) -> Tensor:
        """Return features or a strip of maps of images, which are as large as the largest size."""
        looks = [self.network(_resized(images, side)) for side in self.sides]
        if looks[0].ndim == 2:
            return torch.stack(looks, dim=-2)
        return torch.cat([maps.flatten(2) for maps in looks], dim=-1).unsqueeze(2)


class OfMeanLook(nn.Module):
    """A tail that is given one feature per image, or one per size, of which it takes the mean."""

    def __init__(self, tail: nn.Module) -> None:
        super().__init__()
        self.tail = tail

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the tail's (B, D) features of (B, D) or (B, S, D)."""
        features: Tensor = self.tail(mean_look(hidden))
        return features


class StageOfSizes(nn.Module):
    """The last stage of a CNN, which takes strips of maps and gives the mean feature of all looks that are in them.

    A strip shows a single look when the cells of all other sizes are 0 (`bank.MapLookBank`).
    """

    def __init__(self, stage: nn.Module, shapes: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        self.stage = stage
        self.shapes = tuple(shapes)

    @property
    def cells(self) -> tuple[int, ...]:
        """Cells of the map of each size, in the order of the strip."""
        return tuple(height * width for height, width in self.shapes)

    def forward(self, strip: Tensor) -> Tensor:
        """Return (B, D) features of strips (B, C, 1, cells)."""
        parts = zip(torch.split(strip.squeeze(2), [*self.cells], dim=-1), self.shapes, strict=True)
        look_sbd, is_seen_sb = zip(*[self._look(cells, shape) for cells, shape in parts], strict=True)
        length_sb = [torch.linalg.vector_norm(look_bd, dim=-1) for look_bd in look_sbd]
        mean_length_b = torch.stack(length_sb).sum(0) / torch.stack(is_seen_sb).sum(0).clamp(min=1)
        direction_bd = F.normalize(torch.stack([F.normalize(look_bd, dim=-1) for look_bd in look_sbd]).sum(0), dim=-1)
        return direction_bd * mean_length_b[:, None]

    def _look(self, cells_bcl: Tensor, shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """Return the features of one size, 0 where it is not in the strip, and where it is."""
        is_seen_b = (cells_bcl != 0).flatten(1).any(-1)
        maps = torch.unflatten(cells_bcl, -1, shape)
        if torch.compiler.is_compiling() or not is_seen_b.any():
            # A choice of rows cannot be exported, and not every device takes an empty batch.
            return self.stage(maps) * is_seen_b[:, None], is_seen_b
        look_md = self.stage(maps[is_seen_b])
        return look_md.new_zeros(len(maps), look_md.shape[-1]).masked_scatter(is_seen_b[:, None], look_md), is_seen_b


def mean_look(hidden: Tensor) -> Tensor:
    """Return the mean direction (B, D) of features (B, S, D) of equal length, as long as these; (B, D) stays."""
    if hidden.ndim == 2:
        return hidden
    length_b1: Tensor = torch.linalg.vector_norm(hidden[:, 0], dim=-1, keepdim=True)
    return length_b1 * F.normalize(hidden.mean(1), dim=-1)


def with_sizes(backbone: Backbone, sizes: Sequence[float]) -> Backbone:
    """Return a backbone that sees every view at several sizes, given as multiples of its image size.

    Views are cut at the largest size, and made smaller from there: all sizes show the same part of the image.
    """
    own = backbone.preprocessing.image_size
    sides = _sides(backbone, sizes)
    if len({*sides}) < len(sides):
        reason = f"of {own} pixels are {', '.join(map(str, sides))}, two of which are equal. Choose sizes further apart"
        raise ConfigError("views.sizes", list(sizes), reason)
    try:
        with torch.no_grad():
            for side in sides:
                backbone.network(torch.zeros(1, 3, side, side))
    except (AssertionError, RuntimeError) as error:
        if is_out_of_memory(error):
            raise
        reason = f"{backbone.name} accepts only images of {own} pixels; {ONE_SIZE}"
        raise ConfigError("views.sizes", list(sizes), reason) from error
    preprocessing = replace(backbone.preprocessing, image_size=max(sides))
    return replace(backbone, split=partial(_split_sizes, backbone=backbone, sizes=sizes), preprocessing=preprocessing)


def _split_sizes(network: nn.Module, *, backbone: Backbone, sizes: Sequence[float]) -> tuple[nn.Module, nn.Module]:
    trunk, tail = backbone.split(network)
    sides = _sides(backbone, sizes)
    if isinstance(trunk, ScaledFeatures):
        return SeveralSizes(trunk, sides), OfMeanLook(tail)
    with torch.no_grad():
        shapes = [tuple(trunk(torch.zeros(1, 3, side, side)).shape[1:]) for side in sides]
    if len({shape[0] for shape in shapes}) > 1 or len(shapes[0]) != 3:
        reason = f"the last block of {backbone.name} takes no maps of a CNN; {ONE_SIZE}"
        raise ConfigError("views.sizes", list(sizes), reason)
    return SeveralSizes(trunk, sides), StageOfSizes(tail, [shape[1:] for shape in shapes])


def _sides(backbone: Backbone, sizes: Sequence[float]) -> list[int]:
    return [round(size * backbone.preprocessing.image_size) for size in sizes]


def cells_of_sizes(backbone: Backbone) -> tuple[int, ...]:
    """Return how many cells the map of each size has in a strip; none where the trunk gives features."""
    stages = [part for part in backbone.tail.modules() if isinstance(part, StageOfSizes)]
    return stages[0].cells if stages else ()


def _resized(images: Tensor, side: int) -> Tensor:
    if images.shape[-1] == side:
        return images
    return F.interpolate(images, size=(side, side), mode="bilinear", antialias=True, align_corners=False)
