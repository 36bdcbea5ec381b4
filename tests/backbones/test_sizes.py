"""Several sizes: each its own network pass, the mean what an image is judged by; frozen, or with a trained stage."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nngcd.backbones import load_backbone
from nngcd.backbones.backbone import Backbone, frozen
from nngcd.backbones.sizes import cells_of_sizes, mean_look, with_sizes
from nngcd.core.errors import ConfigError
from nngcd.training.bank import LookBank, MapLookBank, MemoryBank
from nngcd.views.preprocessing import Preprocessing


class Sides(nn.Module):
    """Its features are how large the image is, and its mean colour."""

    def forward(self, images):
        side = torch.full((len(images), 1), float(images.shape[-1]))
        return torch.cat([side, images.mean((2, 3))], -1)


class OneSize(nn.Module):
    def forward(self, images):
        assert images.shape[-1] == 8
        return images.mean((2, 3))


def backbone(network, n_features):
    return frozen(
        Backbone(
            name="tiny",
            network=network,
            split=lambda network: (network, nn.Identity()),
            preprocessing=Preprocessing(image_size=8),
            n_features=n_features,
            fingerprint="",
        )
    )


def test_every_size_is_a_pass_of_its_own_from_views_of_the_largest():
    seen = with_sizes(backbone(Sides(), 4), (1.0, 1.5))
    assert seen.preprocessing.image_size == 12
    images = torch.rand(2, 3, 12, 12)
    looks = seen.trunk(images)
    assert looks.shape == (2, 2, 4)
    # The length is that of effort quick; the direction that of (side, colour).
    assert torch.allclose(looks.norm(dim=-1), torch.full((2, 2), 20**0.5))
    colour = images.mean((2, 3))
    assert torch.allclose(looks[:, 1, 1:] / looks[:, 1, :1], colour / 12, atol=1e-6)
    assert torch.allclose(looks[:, 0, 1:] / looks[:, 0, :1], colour / 8, atol=0.01)


def test_the_tail_sees_the_mean_look_and_takes_single_ones_as_they_are():
    seen = with_sizes(backbone(Sides(), 4), (1.0, 1.5))
    looks = seen.trunk(torch.rand(3, 3, 12, 12))
    expected = F.normalize(F.normalize(looks[:, 0]) + F.normalize(looks[:, 1])) * 20**0.5
    assert torch.allclose(seen.tail(looks), expected, atol=1e-5)
    assert torch.allclose(seen.tail(looks[:, 0]), looks[:, 0])


def test_the_mean_look_by_hand():
    # (3, 0) and (0, 3): half way between them, and as long.
    assert torch.allclose(mean_look(torch.tensor([[[3.0, 0], [0, 3]]])), torch.tensor([[1.0, 1]]) * 3 / 2**0.5)


def test_sizes_count_in_the_name_of_what_is_cached():
    names = {with_sizes(backbone(Sides(), 4), sizes).trunk_fingerprint for sizes in ((1.0, 1.5), (0.75, 1.5))}
    assert len(names) == 2


def test_a_network_of_one_size_is_refused():
    with pytest.raises(ConfigError, match=r"tiny accepts only images of 8 pixels.*views.sizes=\[1\]"):
        with_sizes(backbone(OneSize(), 3), (1.0, 1.5))


def test_a_bank_of_looks_has_their_mean_first():
    kept = torch.nn.functional.normalize(torch.rand(5, 2, 3, 4), dim=-1)  # 5 images, 2 views, 3 sizes, 4 features
    bank = LookBank(MemoryBank(kept), 3)
    assert bank.n_views == 7
    image = torch.tensor([4, 4, 0, 2])
    found = bank.take(image, torch.tensor([0, 1, 6, 4]))
    assert torch.allclose(found[0], F.normalize(kept[4, 0].mean(0), dim=-1))
    assert torch.equal(found[1], kept[4, 0, 0])
    assert torch.equal(found[2], kept[0, 1, 2])
    assert torch.equal(found[3], kept[2, 1, 0])


class Cells(nn.Module):
    """A CNN in two parts: maps of half the side, then their mean times a trained weight."""

    def __init__(self, channels=3):
        super().__init__()
        self.shrink, self.last = nn.AvgPool2d(2), nn.Conv2d(channels, 5, 1)

    def forward(self, images):
        return self.last(self.shrink(images)).relu().mean((2, 3))


class Pooled(nn.Module):
    def __init__(self, conv):
        super().__init__()
        self.conv = conv

    def forward(self, maps):
        return self.conv(maps).relu().mean((2, 3))


def cut_backbone(split=lambda network: (network.shrink, Pooled(network.last))):
    torch.manual_seed(0)
    return replace(backbone(Cells(), 5), split=split)


def strips(sizes=(1.0, 1.5, 0.5)):
    seen = with_sizes(cut_backbone(), sizes)
    return seen, seen.trunk(torch.rand(4, 3, 12, 12))


def test_a_trained_stage_sees_all_sizes_in_one_strip_and_gives_what_frozen_features_are():
    seen, hidden = strips()
    assert hidden.shape == (4, 3, 1, 16 + 36 + 4)
    assert cells_of_sizes(seen) == (16, 36, 4)
    frozen_ = with_sizes(frozen(cut_backbone()), (1.0, 1.5, 0.5))
    torch.manual_seed(0)
    assert cells_of_sizes(frozen_) == ()
    images = torch.rand(4, 3, 12, 12)
    ours, theirs = seen.tail(seen.trunk(images)), frozen_.tail(frozen_.trunk(images))
    assert torch.allclose(F.normalize(ours), F.normalize(theirs), atol=1e-6)
    # As long as the looks are on average.
    looks = [seen.network(F.interpolate(images, size=(side, side), mode="bilinear", antialias=True))
             for side in (8, 12, 4)]  # fmt: skip
    assert torch.allclose(ours.norm(dim=-1), torch.stack(looks).norm(dim=-1).mean(0), atol=1e-6)


def test_a_strip_of_one_size_gives_the_single_look_and_the_same_where_rows_cannot_be_chosen(monkeypatch):
    seen, hidden = strips()
    bank = MapLookBank(MemoryBank(hidden[:, None]), 3, cells_of_sizes(seen))
    assert bank.n_views == 4
    image = torch.tensor([0, 1, 2, 3, 3])
    taken = bank.take(image, torch.tensor([1, 2, 3, 3, 0]))
    maps = [hidden[0, :, 0, :16].view(1, 3, 4, 4), hidden[1, :, 0, 16:52].view(1, 3, 6, 6),
            hidden[2, :, 0, 52:].view(1, 3, 2, 2), hidden[3, :, 0, 52:].view(1, 3, 2, 2)]  # fmt: skip
    found = seen.tail(taken)
    for row, map_ in enumerate(maps):
        assert torch.allclose(found[row], seen.tail.network.stage(map_)[0], atol=1e-6)
    assert torch.allclose(found[4], seen.tail(hidden)[3], atol=1e-6)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert torch.allclose(seen.tail(taken), found, atol=1e-6)


def test_gradients_of_a_strip_are_those_of_its_maps():
    seen, hidden = strips((1.0, 0.5))
    stage = seen.tail.network.stage.double()
    hidden = hidden.double()[:2].clone()
    hidden[0, :, :, 16:] = 0
    found = seen.tail(hidden)
    weight = stage.conv.weight
    (ours,) = torch.autograd.grad(found.pow(2).sum() + found[:, 0].sum(), weight)
    single = stage(hidden[:1, :, 0, :16].unflatten(-1, (4, 4)))
    looks = [stage(hidden[1:, :, 0, :16].unflatten(-1, (4, 4))), stage(hidden[1:, :, 0, 16:].unflatten(-1, (2, 2)))]
    direction = F.normalize(F.normalize(looks[0]) + F.normalize(looks[1]))
    expected = torch.cat([single, direction * (looks[0].norm() + looks[1].norm()) / 2])
    (theirs,) = torch.autograd.grad(expected.pow(2).sum() + expected[:, 0].sum(), weight)
    assert torch.isfinite(ours).all()
    torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=1e-10)


def test_the_stage_passes_only_what_the_strips_show():
    seen, hidden = strips((1.0, 0.5))
    hidden = hidden.clone()
    hidden[1:, ..., 16:] = 0
    n_passed = []
    seen.tail.network.stage.register_forward_hook(lambda _, inputs, __: n_passed.append(len(inputs[0])))
    seen.tail(hidden)
    assert n_passed == [4, 1]


def test_a_size_that_no_strip_shows_changes_nothing():
    seen, hidden = strips((1.0, 0.5))
    hidden = hidden.clone()
    hidden[..., 16:] = 0
    torch.testing.assert_close(seen.tail(hidden), seen.tail.network.stage(hidden[:, :, 0, :16].unflatten(-1, (4, 4))))


def test_a_block_that_takes_no_maps_of_a_cnn_is_refused():
    def with_channels_last(network):
        return nn.Sequential(network.shrink, Permuted()), nn.Identity()

    with pytest.raises(ConfigError, match=r"last block of tiny takes no maps of a CNN.*views.sizes=\[1\]"):
        with_sizes(cut_backbone(with_channels_last), (1.0, 1.5)).trunk  # noqa: B018 (the cut is made when asked for)


class Permuted(nn.Module):
    def forward(self, maps):
        return maps.permute(0, 2, 3, 1)


def test_sizes_that_are_the_same_in_pixels_are_refused():
    backbone = load_backbone("efficientnet_lite0", weights=None, tail_blocks=1, image_size=32)
    with pytest.raises(ConfigError, match="32, 32, two of which are equal"):
        with_sizes(backbone, (1.0, 1.01))


def test_memory_that_runs_out_is_not_taken_for_a_size_that_the_network_refuses(monkeypatch):
    backbone = load_backbone("efficientnet_lite0", weights=None, tail_blocks=1, image_size=32)

    def full(_):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    monkeypatch.setattr(backbone.network, "forward", full)
    with pytest.raises(RuntimeError, match="can't allocate"):
        with_sizes(backbone, (1.0, 1.5))
