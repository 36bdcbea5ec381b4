from __future__ import annotations

import numpy as np
import pytest
import torch

from nngcd.backbones import load_backbone
from nngcd.data.image_arrays import ImageArrays
from nngcd.training.bank import MemoryBank
from nngcd.training.sources import BankViews, OnlineViews, times_before
from nngcd.views.preprocessing import ViewSettings

N_IMAGES = 40


@pytest.fixture
def labels():
    return np.array([0, 1, -1, -1] * 10)


def numbered_views(n_random):
    """Hidden states that say which image and view they are."""
    image_nv, view_nv = torch.meshgrid(torch.arange(N_IMAGES), torch.arange(1 + n_random), indexing="ij")
    return MemoryBank(torch.stack([image_nv, view_nv], dim=-1).float())


@pytest.mark.parametrize("n_random", [2, 5])
def test_two_random_views_are_different_and_never_the_centre(labels, n_random):
    source = BankViews(numbered_views(n_random), labels, "two-random", batch_size=20, seed=0)
    for hidden_vb, labels_b, image_b, n_images in source.batches(0):
        assert n_images == 20
        image, view = hidden_vb[..., 0], hidden_vb[..., 1]
        assert torch.equal(image[0].long(), image_b)
        assert torch.equal(image[0], image[1])
        assert (view[0] != view[1]).all()
        assert (view > 0).all()
        assert torch.equal(labels_b, torch.from_numpy(labels)[image[0].long()])


@pytest.mark.parametrize(("recipe", "n_random"), [("random+centre", 3), ("strong+weak", 3), ("two-random", 1)])
def test_a_random_view_and_the_centre(labels, recipe, n_random):
    source = BankViews(numbered_views(n_random), labels, recipe, batch_size=20, seed=0)
    views = torch.cat([hidden_vb[..., 1] for hidden_vb, *_ in source.batches(0)], dim=1)
    assert (views[1] == 0).all()
    assert set(views[0].tolist()) == set(range(1, n_random + 1))


def test_an_epoch_can_be_drawn_again_without_those_before_it(labels):
    source = BankViews(numbered_views(2), labels, "two-random", batch_size=20, seed=0)
    first = [hidden for hidden, *_ in source.batches(5)]
    again = [hidden for hidden, *_ in source.batches(5)]
    other = [hidden for hidden, *_ in source.batches(6)]
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))
    assert len(first) == source.n_batches == 2


@pytest.mark.parametrize("recipe", ["two-random", "random+centre", "strong+weak"])
def test_online_views_pass_through_the_trunk(rng, labels, recipe):
    images = ImageArrays(rng.integers(0, 255, size=(N_IMAGES, 48, 48, 3)).astype(np.uint8))
    backbone = load_backbone("resnet18", pretrained=False, image_size=32)
    source = OnlineViews(
        images, labels, backbone, ViewSettings(recipe=recipe), batch_size=8, seed=0, may_flip=True, n_workers=0
    )
    hidden_vb, *_ = next(source.batches(0))
    assert hidden_vb.shape[:2] == (2, 8)
    assert backbone.tail(hidden_vb[0]).shape == (8, 512)
    assert not hidden_vb.requires_grad
    again, *_ = next(source.batches(0))
    assert torch.equal(hidden_vb, again)
    later, *_ = next(source.batches(1))
    assert not torch.equal(hidden_vb, later)


def test_times_before_counts_how_often_a_number_has_come_already():
    assert times_before(torch.tensor([3, 1, 3, 0, 3, 1])).tolist() == [0, 0, 1, 0, 2, 1]


@pytest.mark.parametrize("kind", ["bank", "online"])
def test_a_method_chooses_the_images_of_each_batch_which_need_not_be_of_one_size(rng, labels, kind):
    chosen = [torch.arange(7), torch.tensor([3, 3, 9])]
    sizes = []

    def draw(labels_n, batch_size, generator):
        sizes.append((len(labels_n), batch_size))
        return chosen

    if kind == "bank":
        source = BankViews(numbered_views(2), labels, "two-random", batch_size=20, seed=0, draw=draw)
    else:
        images = ImageArrays(rng.integers(0, 255, size=(N_IMAGES, 48, 48, 3)).astype(np.uint8))
        backbone = load_backbone("resnet18", pretrained=False, image_size=32)
        source = OnlineViews(
            images, labels, backbone, ViewSettings(), batch_size=20, seed=0, may_flip=True, n_workers=0, draw=draw
        )
    assert not sizes, "a method may know its batches only after it has looked"
    batches = list(source.batches(0))
    assert [batch.image_b.tolist() for batch in batches] == [image_b.tolist() for image_b in chosen]
    assert [batch.n_images for batch in batches] == [7, 3]
    assert [batch.hidden_vb.shape[:2] for batch in batches] == [(2, 7), (2, 3)]
    assert source.n_batches == 2
    assert set(sizes) == {(N_IMAGES, 20)}


def test_an_image_that_is_drawn_again_in_an_epoch_shows_other_views(rng):
    """As in the authors' loader; half of the labelled draws of an epoch are such."""
    images = ImageArrays(rng.integers(0, 256, size=(6, 40, 40, 3)).astype(np.uint8))
    backbone = load_backbone("efficientnet_lite0", weights=None, tail_blocks=1, image_size=32)
    source = OnlineViews(
        images,
        np.array([0, -1] * 3),
        backbone,
        ViewSettings(recipe="random+centre"),
        batch_size=6,
        seed=0,
        may_flip=True,
        n_workers=0,
    )
    (batch,) = source.batches(0)
    twice = [image for image in batch.image_b.unique() if (batch.image_b == image).sum() > 1]
    assert twice
    for image in twice:
        random, centre = batch.hidden_vb[:, batch.image_b == image]
        assert not torch.equal(random[0], random[1])
        assert torch.equal(centre[0], centre[1])
