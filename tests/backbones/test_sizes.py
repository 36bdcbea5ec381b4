"""Frozen features of several sizes: each its own network pass, the mean what an image is judged by."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nngcd.backbones.backbone import Backbone, frozen
from nngcd.backbones.sizes import mean_look, with_sizes
from nngcd.core.errors import ConfigError
from nngcd.training.bank import LookBank, MemoryBank
from nngcd.views import Preprocessing


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
    with pytest.raises(ConfigError, match=r"tiny takes images of 8 pixels only.*views.sizes=\[1\]"):
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
