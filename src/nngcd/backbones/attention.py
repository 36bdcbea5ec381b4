"""Where the class token of a ViT looks: the attention of its last block, as timm computes it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nngcd.backbones.class_token import Attention
from nngcd.core.errors import UserError
from nngcd.core.torchvision_ops import make_torchvision_importable

make_torchvision_importable()

from timm.models.vision_transformer import VisionTransformer  # noqa: E402 (torchvision must be importable first)


def check_has_attention(network: nn.Module) -> None:
    """Raise `UserError` unless the network is a ViT with a class token and timm's plain attention in its last block."""
    kind = type(network).__name__
    if not isinstance(network, VisionTransformer):
        raise UserError(f"{kind} is not a ViT; only a ViT has a class token with attention to show")
    transformer: Any = network
    if not transformer.has_class_token:
        raise UserError(f"this {kind} has no class token with attention to show")
    attn = getattr(transformer.blocks[-1], "attn", None)
    if type(attn) is not Attention:
        raise UserError(f"the last block of this {kind} has a {type(attn).__name__}, not timm's plain attention")


@torch.no_grad()
def class_token_attention(network: nn.Module, images: Tensor) -> Tensor:
    """Return (B, heads, rows, columns): the class token's attention to each patch; the other tokens' share is missing.

    Args:
        network: a whole ViT, as `check_has_attention` wants it, in eval mode.
        images: (B, 3, H, W) normalised images.
    """
    check_has_attention(network)
    transformer: Any = network
    attn = transformer.blocks[-1].attn
    caught: list[Tensor] = []
    hook = attn.register_forward_pre_hook(lambda _, inputs: caught.append(inputs[0]))
    try:
        transformer.forward_features(images)
    finally:
        hook.remove()
    weights_bht = _class_row(attn, caught[0])
    weights_bhp = weights_bht[..., transformer.num_prefix_tokens :]
    return weights_bhp.reshape(*weights_bhp.shape[:2], *transformer.patch_embed.dynamic_feat_size(images.shape[-2:]))


def _class_row(attn: Any, tokens_btd: Tensor) -> Tensor:  # noqa: ANN401 (timm is untyped)
    """Return the first row of softmax(q k^T scale) of each head: what the class token takes from every token."""
    # A fused attention never makes the matrix, so it is made here, one row of it.
    query_bthe, key_bthe, _ = attn.qkv(tokens_btd).unflatten(-1, (3, attn.num_heads, -1)).unbind(2)
    query_bhe, key_bthe = attn.q_norm(query_bthe[:, 0]), attn.k_norm(key_bthe)
    scores_bht = torch.einsum("bhe,bthe->bht", query_bhe * attn.scale, key_bthe)
    weights_bht: Tensor = scores_bht.softmax(-1)
    return weights_bht
