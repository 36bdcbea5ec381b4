from __future__ import annotations

import pytest
import torch

from nngcd.backbones import load_backbone
from nngcd.backbones.backbone import frozen
from nngcd.backbones.token_prompts import with_token_prompts
from nngcd.core.errors import UserError
from nngcd.core.seeds import torch_generator


def plain(name="test_vit", **more):
    return load_backbone(name, pretrained=False, image_size=32, **more)


def prompted(backbone, n_prompts=5, n_read=2):
    return with_token_prompts(backbone, n_prompts=n_prompts, n_read=n_read, generator=torch_generator(0, "own cut"))


@pytest.fixture
def images():
    return torch.randn(3, 3, 32, 32, generator=torch_generator(0, "images"))


@torch.no_grad()
def test_prompts_that_repeat_all_tokens_change_nothing(images):
    """Attention over every token twice is attention over every token once, and each repeated token becomes itself.

    So the class token's feature is that of the plain network, and the prompts' are those of the tokens they repeat:
    true only if every block gets its own prompts, in place of those of the block before.
    """
    network = plain().network
    caught = []
    for block in network.blocks:
        block.register_forward_pre_hook(lambda _, inputs: caught.append(inputs[0][0]))
    features_td = network.forward_features(images[:1])[0]
    tokens_ltd = torch.stack(caught)
    expected_d = network(images[:1])[0]
    backbone = prompted(plain(), n_prompts=tokens_ltd.shape[1], n_read=3)
    backbone.tail.network.prompts_lpd.copy_(tokens_ltd)
    found_d = backbone.tail(backbone.trunk(images[:1]))[0]
    assert torch.allclose(found_d[:64], expected_d, atol=1e-5)
    assert torch.allclose(found_d[64:], features_td[:3].mean(0), atol=1e-5)


def test_the_prompts_of_every_block_matter_and_learn_and_frozen_weights_do_not(images):
    backbone = prompted(plain())
    features = backbone.tail(backbone.trunk(images))
    assert features.shape == (3, 128) and backbone.n_features == 128
    features.sin().sum().backward()
    grad_l = backbone.tail.network.prompts_lpd.grad.abs().sum((1, 2))
    assert len(grad_l) == 6 and (grad_l > 0).all()
    learns = [any(p.grad is not None for p in block.parameters()) for block in backbone.tail.network.blocks]
    assert learns == [False] * 5 + [True]
    assert all(p.grad is None for p in backbone.tail.network.readout.norm.parameters())
    assert not any(p.requires_grad for p in backbone.trunk.parameters())


def test_prompts_that_are_not_read_still_speak_through_attention(images):
    backbone = prompted(plain(), n_prompts=5, n_read=1)
    before = backbone.tail(backbone.trunk(images)).detach()
    with torch.no_grad():
        backbone.tail.network.prompts_lpd[-1, 4].add_(1.0)
    after = backbone.tail(backbone.trunk(images)).detach()
    assert not torch.equal(before[:, :64], after[:, :64])


@pytest.mark.parametrize(("cut", "n_trained"), [(plain(tail_blocks=2), 2), (plain(), 1), (frozen(plain()), 1)])
def test_the_blocks_that_a_cut_trains_are_trained_and_one_in_effort_quick(cut, n_trained):
    blocks = prompted(cut).tail.network.blocks
    trained = [all(p.requires_grad for p in block.parameters()) for block in blocks]
    assert trained == [False] * (6 - n_trained) + [True] * n_trained


def test_the_same_generator_gives_the_same_prompts_and_the_global_state_is_left_alone():
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, again = (prompted(plain()).tail.network.prompts_lpd for _ in range(2))
    assert torch.equal(first, again) and first.std().item() == pytest.approx(0.02, rel=0.1)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("name", ["resnet18", "test_vit2", "deit_tiny_distilled_patch16_224"])
def test_other_networks_are_refused_with_a_way_out(name):
    with pytest.raises(UserError, match=f"'{name}' is not one. Use --backbone dino or, for a trial, --backbone test"):
        prompted(load_backbone(name, pretrained=False))


@pytest.mark.slow
def test_a_traced_tail_takes_batches_of_any_size(images):
    backbone = prompted(plain())
    hidden_btd = backbone.trunk(images)
    traced = torch.export.export(backbone.tail, (hidden_btd[:2],), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    torch.testing.assert_close(traced.module()(hidden_btd), backbone.tail(hidden_btd))
