"""The class token's row of the last block against timm's own block, which computes all rows."""

from functools import partial

import pytest
import timm
import torch
from timm.layers import RmsNorm, SwiGLU, SwiGLUPacked
from timm.models.vision_transformer import (
    DiffParallelScalingBlock,
    ParallelScalingBlock,
    ParallelThingsBlock,
    ResPostBlock,
)
from torch import nn

from nngcd.backbones.class_token import class_token_output, is_plain_block, reads_only_class_token
from nngcd.backbones.timm_models import split_timm

VIT = "vit_tiny_patch16_224"
SMALL = {"img_size": 32, "depth": 3, "embed_dim": 24, "num_heads": 3}
TAKEN = {
    "plain": (VIT, {}),
    "one head": (VIT, {"num_heads": 1}),
    "nn.LayerNorm": (VIT, {"norm_layer": partial(nn.LayerNorm, eps=1e-3)}),
    "layer scale": (VIT, {"init_values": 1e-5}),
    "SwiGLU as in DINOv2 giant": (VIT, {"init_values": 1e-5, "mlp_layer": SwiGLUPacked, "act_layer": nn.SiLU}),
    "SwiGLU of two layers": (VIT, {"mlp_layer": SwiGLU, "act_layer": nn.SiLU, "mlp_ratio": 2.5}),
    "DINOv2 with registers": ("vit_small_patch14_reg4_dinov2", {"img_size": 42}),
    "DeiT 3, class token not embedded": ("deit3_small_patch16_224", {}),
    "CLIP with quick GELU": ("vit_base_patch16_clip_quickgelu_224", {}),
    "queries and keys normed": (VIT, {"qk_norm": True}),
    "no biases": (VIT, {"qkv_bias": False, "proj_bias": False}),
    "normed keys without bias": (VIT, {"qk_norm": True, "qkv_bias": False}),
    "attention and MLP normed": (VIT, {"scale_attn_norm": True, "scale_mlp_norm": True}),
    "dropped out in training": (VIT, {"drop_path_rate": 0.5, "attn_drop_rate": 0.5, "proj_drop_rate": 0.5}),
    "normed after the pooling": (VIT, {"fc_norm": True}),
    "not normed at the end": (VIT, {"final_norm": False}),
}
FULL = {
    "average": (VIT, {"global_pool": "avg"}),
    "average without class token": (VIT, {"global_pool": "avg", "class_token": False}),
    "maximum": (VIT, {"global_pool": "max"}),
    "attention pooling": (VIT, {"global_pool": "map"}),
    "distilled DeiT, which reads two tokens": ("deit_tiny_distilled_patch16_224", {}),
    "RMS norm": (VIT, {"norm_layer": RmsNorm}),
    "norm without shift": (VIT, {"norm_layer": partial(nn.LayerNorm, bias=False)}),
    "norm after attention": (VIT, {"block_fn": ResPostBlock}),
    "MLP beside attention": (VIT, {"block_fn": ParallelScalingBlock}),
    "differential attention beside": (VIT, {"block_fn": DiffParallelScalingBlock, "embed_dim": 48}),
    "two attentions": (VIT, {"block_fn": ParallelThingsBlock}),
    "differential attention": (VIT, {"attn_layer": "diff", "embed_dim": 48}),
    "EVA": ("eva02_tiny_patch14_224", {"img_size": 42}),
}


def small_tail(name, options, tail_blocks=1):
    """Return the tail of a small float64 model, no parameter of which is 0 or 1, and hidden states for it."""
    torch.manual_seed(0)
    options = {**SMALL, **options}
    model = timm.create_model(name, num_classes=0, **options)
    with torch.no_grad():
        for parameter in model.parameters():
            size = 1 if parameter.ndim < 2 else parameter.shape[-1]
            parameter.normal_(std=size**-0.5)
    trunk, tail = (part.double() for part in split_timm(model, tail_blocks))
    hidden = trunk(torch.rand(4, 3, options["img_size"], options["img_size"], dtype=torch.float64))
    return tail.requires_grad_(True), hidden * (1 + torch.rand_like(hidden)) + 0.5


def timms_own(tail, hidden):
    for index, block in enumerate(tail.blocks):
        hidden = block(hidden) if tail.ropes is None else block(hidden, rope=tail.ropes[index])
    return tail.readout.forward_head(tail.readout.norm(hidden))


def value_and_gradients(function, tail, hidden):
    """Return features and the gradients of a random function of them."""
    hidden = hidden.clone().requires_grad_(True)
    features = function(hidden)
    weight = torch.randn(features.shape, generator=torch.Generator().manual_seed(1), dtype=features.dtype)
    variables = [hidden, *tail.parameters()]
    gradients = torch.autograd.grad((features * weight).sum(), variables)
    return features, dict(zip(["hidden", *dict(tail.named_parameters())], gradients, strict=True))


def tokens_in_mlps(tail, hidden):
    """Return how many tokens the MLP of each block of the tail sees."""
    seen = []
    hooks = [block.mlp.register_forward_pre_hook(lambda _, x: seen.append(x[0].shape[1])) for block in tail.blocks]
    tail(hidden)
    for hook in hooks:
        hook.remove()
    return seen


@pytest.mark.parametrize("tail_blocks", [1, 2])
@pytest.mark.parametrize(("name", "options"), [*TAKEN.values(), *FULL.values()], ids=[*TAKEN, *FULL])
def test_features_and_all_gradients_are_timms(name, options, tail_blocks):
    tail, hidden = small_tail(name, options, tail_blocks)
    features, gradients = value_and_gradients(tail, tail, hidden)
    expected_features, expected_gradients = value_and_gradients(partial(timms_own, tail), tail, hidden)
    torch.testing.assert_close(features, expected_features, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(gradients, expected_gradients, rtol=1e-10, atol=1e-10)
    # What shifts all keys alike cannot change the attention. Differential attention has more that is nearly 0.
    idle = [name for name, gradient in gradients.items() if gradient.norm() < 1e-4 and "lambda" not in name]
    assert all(name.endswith("k_norm.bias") for name in idle)


@pytest.mark.parametrize(("name", "options"), TAKEN.values(), ids=TAKEN)
def test_the_block_returns_its_class_token(name, options):
    tail, hidden = small_tail(name, options)
    (block,) = tail.blocks
    torch.testing.assert_close(class_token_output(block, hidden), block(hidden)[:, :1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("name", "options"), TAKEN.values(), ids=TAKEN)
def test_only_the_class_token_passes_the_last_mlp(name, options):
    tail, hidden = small_tail(name, options, tail_blocks=2)
    assert tokens_in_mlps(tail, hidden) == [hidden.shape[1], 1]


@pytest.mark.parametrize(("name", "options"), FULL.values(), ids=FULL)
def test_other_poolings_and_blocks_are_left_to_timm(name, options):
    tail, _ = small_tail(name, options)
    assert not (reads_only_class_token(tail.readout) and is_plain_block(tail.blocks[-1]))


@pytest.mark.parametrize("name", ["norm1", "attn", "attn.qkv", "mlp", "new", "attn.gate"])
def test_a_block_with_an_unknown_part_is_left_to_timm(name):
    tail, _ = small_tail(VIT, {})
    (block,) = tail.blocks
    assert is_plain_block(block)
    *parents, child = name.split(".")
    setattr(block.get_submodule(".".join(parents)), child, nn.Sequential())
    assert not is_plain_block(block)


def test_dropout_and_half_precision_weights_are_left_to_timm():
    tail, _ = small_tail(VIT, {})
    (block,) = tail.blocks
    assert not is_plain_block(block.train())
    assert not is_plain_block(block.eval().bfloat16())


def test_the_weights_keep_their_names():
    tail, _ = small_tail(VIT, {"init_values": 1.0}, tail_blocks=2)
    block = (
        "norm1.weight norm1.bias attn.qkv.weight attn.qkv.bias attn.proj.weight attn.proj.bias ls1.gamma norm2.weight "
    )
    block += "norm2.bias mlp.fc1.weight mlp.fc1.bias mlp.fc2.weight mlp.fc2.bias ls2.gamma"
    blocks = [f"blocks.{index}.{name}" for index in (0, 1) for name in block.split()]
    assert list(tail.state_dict()) == [*blocks, "readout.norm.weight", "readout.norm.bias"]


def test_float32_bears_tokens_far_from_their_mean_and_tokens_of_zeros():
    tail, hidden = small_tail(VIT, {})
    hidden = hidden / hidden.std(-1, keepdim=True) + 30
    hidden[:, 1] = 0
    expected = timms_own(tail, hidden)
    torch.testing.assert_close(tail.float()(hidden.float()).double(), expected, rtol=0, atol=1e-4)


def test_a_token_whose_numbers_are_all_alike_does_no_harm():
    tail, hidden = small_tail(VIT, {})
    hidden = hidden.float().repeat(25, 1, 1)
    hidden[:, 1] = torch.linspace(1, 100, 100)[:, None] / 3
    assert tail.float()(hidden).isfinite().all()


def test_autocast_costs_no_more_digits_than_in_timm():
    tail, hidden = small_tail(VIT, {})
    expected = timms_own(tail, hidden)
    tail, hidden = tail.float(), hidden.float()
    with torch.autocast("cpu", torch.bfloat16):
        error, timms_error = (f.double() - expected for f in (tail(hidden), timms_own(tail, hidden)))
    assert error.norm() < 1.5 * timms_error.norm()
