"""Prompts in pixels: learnt numbers that are added to every image, in front of a network that stays as it is."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nngcd.backbones.backbone import Backbone

# The size of image for which border and learning rate are given, and the patch of networks that have none of their own.
USUAL_SIZE, USUAL_PATCH = 224, 16


def with_pixel_prompts(
    backbone: Backbone,
    *,
    border: int,
    deviation: float = 1.0,
    learning_rate: float,
    is_on: bool = False,
    generator: torch.Generator,
) -> Backbone:
    """Return the backbone with a `PixelPrompt` in front.

    The hidden states are then the normalised pixels and, as a fourth channel, the share of the prompt that is added to
    them: 1, which training may change. All of the network comes after the prompt and is in the tail: gradients pass
    through what was the trunk, whose weights do not learn.

    Args:
        backbone: any network, cut as the effort says.
        border: width of the prompt along the edge of an image of 224 pixels; it grows and shrinks with the image.
        deviation: standard deviation of the prompt at the start.
        learning_rate: how many times the heads' learning rate the prompt learns with at 224 pixels. It grows and
            shrinks with the area: of fewer pixels, each has a larger part in the features, and a larger gradient.
        is_on: whether the prompt is added from the start.
        generator: draws the prompt.
    """
    image_size = backbone.preprocessing.image_size
    zoom = image_size / USUAL_SIZE
    n_prompts_hw = prompts_per_pixel(image_size, border=round(border * zoom), patch=patch_size(backbone.network))
    # The optimiser takes the prompt for a part of the tail, whose own rate is to make no difference to it.
    rate = learning_rate * zoom**2 / backbone.tail_learning_rate
    prompt = PixelPrompt(n_prompts_hw, deviation=deviation, learning_rate=rate, generator=generator)
    prompt.is_on.fill_(float(is_on))
    return replace(backbone, split=partial(_split_at_pixels, prompt=prompt, backbone=backbone), may_fold=False)


def _split_at_pixels(_: nn.Module, *, prompt: PixelPrompt, backbone: Backbone) -> tuple[nn.Module, nn.Module]:
    return PixelsAndShare(), PromptedNetwork(prompt, backbone.trunk.network, backbone.tail)


def patch_size(network: nn.Module) -> int:
    """Return the side of a transformer's patches in pixels; 16 for other networks."""
    transformer: Any = network
    return int(transformer.patch_embed.patch_size[0]) if hasattr(network, "patch_embed") else USUAL_PATCH


def prompts_per_pixel(image_size: int, *, border: int, patch: int) -> Tensor:
    """Return (H, W) how many prompts a pixel has: one near the edge of the image, one at the edge of each patch.

    Args:
        image_size: H and W.
        border: pixels at the edge of the image that have one.
        patch: side of a patch; the outermost pixels of each have one.
    """
    place = torch.arange(image_size)
    is_outer = (place < border) | (place >= image_size - border)
    is_patch_edge = (place % patch == 0) | (place % patch == patch - 1)
    return (is_outer[:, None] | is_outer).float() + (is_patch_edge[:, None] | is_patch_edge).float()


class PixelPrompt(nn.Module):
    """Prompt that is added to an image: a number for each colour of each pixel that has a prompt; it starts as noise.

    All parameters of a run share one optimiser, so the learning rate of the prompt is made by its scale: the prompt is
    s times the parameter, with s^2 = `learning_rate`, and the parameter starts s times as small. A step of SGD by the
    gradient s g of the parameter moves the prompt by s times that, s^2 g: it is SGD, with momentum, at s^2 times the
    learning rate (tested). In the same way a pixel with two prompts has one of s^2 twice as large, which starts and
    learns as the sum of the two does. The parameter is a vector, because vectors have no weight decay.

    It is off when made: until training begins with it, features are those of the image alone.
    """

    scale_hw: Tensor
    is_on: Tensor

    def __init__(
        self, n_prompts_hw: Tensor, *, deviation: float = 1.0, learning_rate: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        noise = torch.randn(3 * n_prompts_hw.numel(), generator=generator)
        self.values = nn.Parameter(noise * (deviation / math.sqrt(learning_rate)))
        self.register_buffer("scale_hw", torch.sqrt(learning_rate * n_prompts_hw), persistent=False)
        # A buffer, so that checkpoints and models know of it.
        self.register_buffer("is_on", torch.zeros(()))

    @property
    def prompt(self) -> Tensor:
        """The prompt (3, H, W)."""
        return self.values.view(3, *self.scale_hw.shape) * self.scale_hw

    def forward(self, hidden_b: Tensor) -> Tensor:
        """Return prompted pixels (B, 3, H, W) of pixels and share (B, 4, H, W)."""
        return hidden_b[:, :3] + hidden_b[:, 3:] * (self.is_on * self.prompt)


class PixelsAndShare(nn.Module):
    """The frozen part of a prompted network: the pixels themselves, and the share of the prompt, 1, as a channel."""

    def forward(self, images: Tensor) -> Tensor:
        """Return (B, 4, H, W) of (B, 3, H, W)."""
        return torch.cat([images, torch.ones_like(images[:, :1])], dim=1)


class PromptedNetwork(nn.Module):
    """A prompt, the network's frozen part, and its trained part."""

    def __init__(self, prompt: PixelPrompt, trunk: nn.Module, tail: nn.Module) -> None:
        super().__init__()
        self.prompt, self.trunk, self.tail = prompt, trunk, tail

    def forward(self, hidden_b: Tensor) -> Tensor:
        """Return (B, D) features of pixels and share (B, 4, H, W)."""
        features_bd: Tensor = self.tail(self.trunk(self.prompt(hidden_b)))
        return features_bd


def prompt_of(tail: nn.Module) -> PixelPrompt:
    """Return the prompt in the tail of a prompted backbone."""
    return next(module for module in tail.modules() if isinstance(module, PixelPrompt))
