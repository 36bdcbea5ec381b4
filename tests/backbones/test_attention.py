"""The class token's attention against timm's own block, which hands its weights to `attn_drop` when it is not fused."""

import pytest
import timm
import torch

from nngcd.backbones.attention import check_has_attention, class_token_attention
from nngcd.core.errors import UserError

SMALL = {"img_size": 48, "depth": 2, "embed_dim": 24, "num_heads": 3, "num_classes": 0}
VIT = "vit_tiny_patch16_224"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (VIT, {}),
        (VIT, {"qk_norm": True, "qkv_bias": False}),
        (VIT, {"init_values": 1e-5, "global_pool": "avg"}),
        ("vit_small_patch14_reg4_dinov2", {"img_size": 42}),
    ],
)
def test_it_is_what_timms_block_computes(name, options):
    torch.manual_seed(0)
    network = timm.create_model(name, **{**SMALL, **options}).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.3)
    size = network.patch_embed.img_size[0]
    images = torch.randn(2, 3, size, size)
    found = class_token_attention(network, images)

    attn, seen = network.blocks[-1].attn, []
    attn.fused_attn = False
    attn.attn_drop.register_forward_hook(lambda _, inputs, output: seen.append(output))
    with torch.no_grad():
        network(images)
    expected = seen[0][:, :, 0, network.num_prefix_tokens :].unflatten(-1, network.patch_embed.grid_size)
    assert found.shape == (2, 3, 3, 3)
    assert expected.std() > 0.01
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("resnet10t", {}, "ResNet is not a ViT"),
        ("eva02_tiny_patch14_224", {**SMALL, "img_size": 42}, "Eva is not a ViT"),
        (VIT, {**SMALL, "class_token": False, "global_pool": "avg"}, "no class token"),
        (VIT, {**SMALL, "attn_layer": "diff", "embed_dim": 48}, "not timm's plain attention"),
    ],
)
def test_other_networks_are_refused_with_a_reason(name, options, reason):
    with pytest.raises(UserError, match=reason):
        check_has_attention(timm.create_model(name, **options))


def test_the_network_is_left_as_it_was():
    network = timm.create_model(VIT, **SMALL).eval()
    class_token_attention(network, torch.randn(1, 3, 48, 48))
    assert not network.blocks[-1].attn._forward_pre_hooks
