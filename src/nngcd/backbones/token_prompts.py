"""Learned tokens next to those of the image in every block of a ViT: deep visual prompts, without a fork of timm."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nngcd.backbones.backbone import Backbone
from nngcd.core.errors import UserError

PROMPT_DEVIATION = 0.02
"""Prompts start as PromptCAL's do: like all its weights, from a truncated normal distribution."""


class PromptedTail(nn.Module):
    """All blocks of a ViT, each with learned tokens of its own, which take the place of those of the block before.

    VPT-deep (Jia et al., ECCV 2022). The prompts stand after the class token and have no position embedding; where they
    stand is only a matter of reading them, since attention does not see the order of tokens.

    Args:
        blocks: all blocks.
        readout: the ViT without its blocks; its own `norm` and `forward_head` are used.
        prompts_lpd: the first prompts of each block.
        n_read: of how many prompts the output is read.
    """

    def __init__(self, blocks: nn.ModuleList, readout: nn.Module, prompts_lpd: Tensor, n_read: int) -> None:
        super().__init__()
        self.blocks = blocks
        self.readout: Any = readout
        self.prompts_lpd = nn.Parameter(prompts_lpd)
        self.n_read = n_read

    def forward(self, hidden_btd: Tensor) -> Tensor:
        """Return (B, 2D) features of embedded images: those of the class token, then the mean of the prompts read."""
        ends = 1, 1 + self.prompts_lpd.shape[1]
        class_b1d, rest_btd = hidden_btd.tensor_split((1,), dim=1)
        for block, prompts_pd in zip(self.blocks, self.prompts_lpd, strict=True):
            # Not `len`: a trace for ONNX would keep its number.
            prompts_bpd = prompts_pd.expand(hidden_btd.shape[0], -1, -1)
            output_btd = block(torch.cat([class_b1d, prompts_bpd, rest_btd], dim=1))
            class_b1d, prompts_bpd, rest_btd = output_btd.tensor_split(ends, dim=1)
        read_brd = self.readout.norm(prompts_bpd[:, : self.n_read])
        of_class_bd: Tensor = self.readout.forward_head(self.readout.norm(class_b1d))
        of_prompts_bd: Tensor = self.readout.forward_head(read_brd.mean(1, keepdim=True))
        return torch.cat([of_class_bd, of_prompts_bd], dim=-1)


def with_token_prompts(backbone: Backbone, *, n_prompts: int, n_read: int, generator: torch.Generator) -> Backbone:
    """Return a ViT cut after its embedding, with learned tokens in every block and twice the features.

    The tail trains the prompts and the blocks that the given cut trains; effort quick, whose cut trains none, the last
    one. The gradient passes through all other blocks, which stay as they are, to the prompts before them.

    Args:
        backbone: a ViT, cut in any way.
        n_prompts: tokens in each block.
        n_read: how many of them are read after the last block.
        generator: the source of the first prompts.

    Raises:
        UserError: the network is not a plain ViT with a class token.
    """
    # Here, not above: timm takes seconds to import, and a method is also listed by those who never load a network.
    from nngcd.backbones.class_token import reads_only_class_token

    network: Any = backbone.network
    if not reads_only_class_token(network):
        raise UserError(
            f"prompts need a plain vision transformer with a class token, but '{backbone.name}' is not one. "
            "Use --backbone dino or, for a trial, --backbone test_vit --weights random."
        )
    trained = {id(parameter) for parameter in backbone.tail.parameters()}
    n_trained = sum(any(id(p) in trained for p in block.parameters()) for block in network.blocks)
    prompts_lpd = torch.empty(len(network.blocks), n_prompts, backbone.n_features)
    nn.init.trunc_normal_(prompts_lpd, std=PROMPT_DEVIATION, generator=generator)
    split = partial(_split_at_embedding, n_trained=max(n_trained, 1), prompts_lpd=prompts_lpd, n_read=n_read)
    return replace(backbone, split=split, n_features=2 * backbone.n_features)


def _split_at_embedding(
    model: nn.Module, *, n_trained: int, prompts_lpd: Tensor, n_read: int
) -> tuple[nn.Module, nn.Module]:
    from nngcd.backbones.timm_models import split_timm

    trunk, tail = split_timm(model, tail_blocks=len(prompts_lpd))
    blocks: Any = tail.blocks
    for block in blocks[: len(blocks) - n_trained]:
        block.requires_grad_(False)
    return trunk, PromptedTail(blocks, tail.get_submodule("readout"), prompts_lpd, n_read).eval()
