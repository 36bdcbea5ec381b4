"""From the name of a timm model to a backbone."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from nngcd.backbones.backbone import CNN_TAIL_LEARNING_RATE, Backbone
from nngcd.backbones.hub import check_pre_training, pretrained_timm
from nngcd.backbones.timm_models import FOLDABLE, split_timm
from nngcd.backbones.weights import fingerprint, load_weights
from nngcd.core.errors import ConfigError
from nngcd.core.torchvision_ops import make_torchvision_importable
from nngcd.views.preprocessing import Preprocessing

make_torchvision_importable()

import timm  # noqa: E402 (torchvision must be importable first)
from timm.data.config import resolve_data_config  # noqa: E402

# The field crops 224 out of 256 for every backbone. Where a model's own fraction is larger (1 for DINOv2), a random
# crop would have no room to move and the views of an image would be the same.
CROP_FRACTION = 0.875


def timm_names() -> list[str]:
    """Return the names of all architectures of timm; a name may be followed by a dot and the name of a pre-training."""
    names: list[str] = timm.list_models()
    return names


def load_timm(
    name: str,
    weights: Path | None,
    *,
    tail_blocks: int,
    tail_norm: bool = False,
    image_size: int | None,
    pretrained: bool,
) -> Backbone:
    """Return a timm model as a backbone, with weights from a file, else pre-trained, else (for tests) random ones."""
    is_from_hub = pretrained and weights is None
    check_pre_training(name, needs_weights=is_from_hub)
    if is_from_hub and image_size is not None:
        # Before any weights are downloaded.
        check_image_size(_untrained(name), name, image_size)
    network: Any = pretrained_timm(name) if is_from_hub else _untrained(name)
    if image_size is not None:
        check_image_size(network, name, image_size)
    if weights is not None:
        if image_size is not None and hasattr(network, "pos_embed"):
            # A file made for this size is then taken as it is, not resampled to the network's own size and back.
            set_image_size(network, image_size)
        load_weights(network, weights)
    if image_size is not None:
        set_image_size(network, image_size)
    if not hasattr(network, "patch_embed"):
        # Measured with efficientnet_lite0 on two CPU cores: 1.5 times as fast in batches of 8, 1.8 in batches of 64.
        network.to(memory_format=torch.channels_last)
    return Backbone(
        name=name,
        network=network.eval(),
        split=partial(split_timm, tail_blocks=tail_blocks, tail_norm=tail_norm),
        preprocessing=preprocessing_of(network, image_size),
        n_features=int(network.head_hidden_size),
        fingerprint=fingerprint(network),
        may_fold=type(network) in FOLDABLE,
        tail_learning_rate=1.0 if hasattr(network, "patch_embed") else CNN_TAIL_LEARNING_RATE,
    )


def check_image_size(model: nn.Module, name: str, image_size: int) -> None:
    """Raise `ConfigError` if the network cannot read images of this size; the message names the nearest sizes."""
    network: Any = model
    if hasattr(model, "patch_embed"):
        patch = network.patch_embed.patch_size[0]
        below = image_size // patch * patch
        if below != image_size:
            nearest = " and ".join(str(size) for size in (below, below + patch) if size)
            reason = f"{name} uses patches of {patch} pixels; the nearest sizes are {nearest}"
            raise ConfigError("image_size", image_size, reason)
    own = network.pretrained_cfg["input_size"][-1]
    is_fixed = network.pretrained_cfg.get("fixed_input_size") and not hasattr(model, "set_input_size")
    if is_fixed and image_size != own:
        raise ConfigError("image_size", image_size, f"{name} accepts only images of {own} pixels")


def set_image_size(model: nn.Module, image_size: int) -> None:
    """Fit the network to an image size: transformers resample their position embedding, others need nothing."""
    network: Any = model
    if hasattr(model, "set_input_size"):
        network.set_input_size(img_size=(image_size, image_size))


def preprocessing_of(model: nn.Module, image_size: int | None = None) -> Preprocessing:
    """Return how the network wants its images, from timm's data config of its pre-training."""
    config: dict[str, Any] = resolve_data_config({}, model=model)  # type: ignore[no-untyped-call]  # timm is untyped
    return Preprocessing(
        image_size=image_size or int(config["input_size"][-1]),
        crop_fraction=min(float(config["crop_pct"]), CROP_FRACTION),
        interpolation="bilinear" if config["interpolation"] == "bilinear" else "bicubic",
        mean=config["mean"],
        std=config["std"],
    )


def _untrained(name: str) -> nn.Module:
    # timm draws from torch's global state of the CPU, which is left as it was; that of GPUs is not touched.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        network: nn.Module = timm.create_model(name, pretrained=False, num_classes=0)
    return network
