"""Backbones by name: a file of this package that defines `load`, a pre-training of the paper, or any model of timm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nngcd.backbones.backbone import Backbone
from nngcd.backbones.pretrainings import PRE_TRAININGS, check_weights_can_be_had
from nngcd.core.components import component_names, find_component
from nngcd.core.errors import ConfigError, UserError, did_you_mean, warn
from nngcd.core.memory import keep_freed_memory

OWN_BACKBONE = "efficientnet_lite0"
"""The packaged backbone: its weights come with nngcd."""
RANDOM = Path("random")
"""Instead of a file of weights: those a network starts with, the same in every run."""


def load_backbone(
    name: str,
    *,
    weights: Path | None = None,
    tail_blocks: int = 1,
    tail_norm: bool = False,
    image_size: int | None = None,
    pretrained: bool = True,
) -> Backbone:
    """Return the backbone called `name`.

    Args:
        name: a component of this package, for example `efficientnet_lite0`, a short name of `PRE_TRAININGS`, for
            example `dino`, or a timm model.
        weights: a local file instead of the weights that belong to the name, or `RANDOM`.
        tail_blocks: blocks (transformers) or stages (others) at its end that are trained.
        tail_norm: whether to train the norm layer after the last block as well, in a timm network that has one.
        image_size: side of the crop in pixels, if not the backbone's own.
        pretrained: False leaves a timm model with random weights, for what is loaded next, or for tests.

    Raises:
        UserError: no such backbone; the message names the nearest one.
        ResourceError: the weights are neither here nor can they be downloaded.
        DataError: the file does not hold this backbone's weights.
    """
    # Here, not above: timm takes seconds to import, and whoever only needs `Backbone` should not wait for it.
    from nngcd.backbones.timm_loading import load_timm

    keep_freed_memory()
    components = component_names(__name__, "load")
    if weights == RANDOM:
        if name in components:
            raise ConfigError("weights", "random", f"{name} has its own weights; random ones are only for timm models")
        warn(f"{name} has random weights: use it only to test that everything runs, not to judge accuracy.")
        weights, pretrained = None, False
    if name in components:
        load = find_component(__name__, name, "load").load
        backbone: Backbone = load(weights, tail_blocks=tail_blocks, image_size=image_size)
        return backbone
    check_name(name)
    known = PRE_TRAININGS.get(name)
    if known and pretrained and weights is None:
        check_weights_can_be_had(name)
    timm_name, own_size = (known.timm_name, known.image_size) if known else (name, None)
    backbone = load_timm(
        timm_name, weights, tail_blocks=tail_blocks, tail_norm=tail_norm, image_size=image_size or own_size,
        pretrained=pretrained,
    )  # fmt: skip
    return replace(backbone, name=name)


def check_name(name: str) -> None:
    """Raise `UserError` where there is no backbone of that name."""
    names = [*component_names(__name__, "load"), *PRE_TRAININGS]
    if name in names:
        return
    from nngcd.backbones.timm_loading import timm_names  # timm takes seconds to import

    if name.partition(".")[0] not in timm_names():
        near = did_you_mean(name, [*names, *timm_names()])
        raise UserError(f"unknown backbone '{name}'.{near} Choose from: {', '.join(names)}, or any timm model.")
