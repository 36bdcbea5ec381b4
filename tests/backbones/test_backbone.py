import math
from dataclasses import replace

import pytest
import timm
import torch
from torch import nn

from nngcd.backbones import load_backbone
from nngcd.backbones.backbone import Adapter, Backbone, frozen, small_batches
from nngcd.backbones.timm_models import split_timm
from nngcd.core.errors import UserError
from nngcd.views.preprocessing import Preprocessing


def small_network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def small_backbone(split=lambda network: (network[:1], network[1:])):
    return Backbone(
        name="small",
        network=small_network(),
        split=split,
        preprocessing=Preprocessing(image_size=8),
        n_features=4,
        fingerprint="0",
    )


def test_the_trunk_never_learns_and_the_tail_stays_in_eval_mode():
    backbone = small_backbone()
    both = nn.ModuleList([backbone.trunk, backbone.tail]).train()
    assert not any(module.training for module in both[0].modules())
    assert not any(module.training for module in both[1].modules())
    hidden = backbone.trunk(torch.rand(2, 3, 8, 8))
    assert not hidden.requires_grad
    first, second = backbone.tail(hidden), backbone.tail(hidden)
    assert torch.equal(first, second) and first.requires_grad


def test_only_maps_on_a_cpu_come_in_small_batches():
    maps, tokens = torch.zeros(40, 4, 7, 7), torch.zeros(40, 5, 8)
    assert [len(part) for part in small_batches(maps)] == [16, 16, 8]
    assert small_batches(tokens) == (tokens,)
    assert [part.shape for part in small_batches(maps[:0])] == [maps[:0].shape]
    assert len(small_batches(maps.to("meta"))) == 1


def test_sparse_weights_are_matrices_kernels_and_gains_of_the_tail():
    vit = timm.create_model("vit_tiny_patch16_224", depth=2, embed_dim=24, num_heads=2, num_classes=0)
    backbone = replace(small_backbone(split_timm), network=vit)
    block = [(24,), (72, 24), (24, 24), (24,), (96, 24), (24, 96)]  # and not the final norm, which is frozen
    assert [tuple(weight.shape) for weight in backbone.sparse_weights] == block
    assert [tuple(weight.shape) for weight in small_backbone().sparse_weights] == [(4,)]


def test_frozen_gives_features_of_length_root_20_and_an_identity_adapter():
    backbone = frozen(small_backbone())
    hidden = backbone.trunk(torch.rand(5, 3, 8, 8))
    torch.testing.assert_close(hidden.norm(dim=-1), torch.full((5,), math.sqrt(20)))
    assert torch.equal(backbone.tail(hidden), hidden)
    assert not any(p.requires_grad for p in backbone.trunk.parameters())
    assert [tuple(weight.shape) for weight in backbone.sparse_weights] == [(4, 4)]


def test_the_adapter_uses_no_randomness():
    before = torch.random.get_rng_state()
    adapter = Adapter(3)
    assert torch.equal(adapter.weight, torch.eye(3)) and torch.equal(adapter.bias, torch.zeros(3))
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_network_that_cannot_be_cut_can_be_frozen():
    backbone = load_backbone("test_byobnet", pretrained=False)
    with pytest.raises(UserError, match="--effort quick"):
        _ = backbone.trunk
    assert frozen(backbone).trunk(torch.rand(1, 3, 32, 32)).shape == (1, backbone.n_features)


def test_different_trunks_have_different_fingerprints():
    backbone = small_backbone()
    trunks = [backbone, frozen(backbone), frozen(backbone, scale=1.0)]
    assert len({trunk.trunk_fingerprint for trunk in trunks}) == 3
    assert small_backbone().trunk_fingerprint == backbone.trunk_fingerprint
