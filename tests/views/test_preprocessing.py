import json

import numpy as np
import pytest
import torch
from PIL import Image

from nngcd.core.config import build, field_docs
from nngcd.core.errors import ConfigError
from nngcd.core.torchvision_ops import make_torchvision_importable
from nngcd.views.preprocessing import Preprocessing, ViewSettings, feature_views


def gradient(width, height):
    """An image whose red is the column, green the row, blue 7."""
    columns, rows = np.meshgrid(np.arange(width), np.arange(height))
    return Image.fromarray(np.stack([columns, rows, np.full_like(rows, 7)], -1).astype(np.uint8))


def photo(width=300, height=200, seed=0):
    noise = np.random.default_rng(seed).integers(0, 256, (height // 10, width // 10, 3)).astype(np.uint8)
    return Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)


def test_centre_view_of_a_gradient_is_its_middle():
    # The short side already is int(8 / 0.8) = 10, so nothing is resized: columns 6..13 and rows 1..8 remain.
    view = Preprocessing(image_size=8, crop_fraction=0.8).centre_view(gradient(20, 10))
    assert view.dtype == torch.uint8
    assert view[0, 0].tolist() == [6, 7, 8, 9, 10, 11, 12, 13]
    assert view[1, :, 0].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert view[2].unique().tolist() == [7]


@pytest.mark.parametrize("size", [(300, 200), (123, 457), (64, 64), (32, 32)])
def test_centre_view_equals_the_transforms_of_the_field(size):
    make_torchvision_importable()
    from torchvision import transforms

    field = transforms.Compose(
        [
            transforms.Resize(int(224 / 0.875), interpolation=transforms.InterpolationMode.BICUBIC),
            transforms.CenterCrop(224),
            transforms.PILToTensor(),
        ]
    )
    assert torch.equal(Preprocessing().centre_view(photo(*size)), field(photo(*size)))


def test_short_side_becomes_256_for_a_crop_of_224():
    assert Preprocessing().resized(photo(300, 200)).size == (384, 256)
    assert Preprocessing().resized(photo(200, 300)).size == (256, 384)


def test_resizing_twice_changes_nothing():
    once = Preprocessing().resized(photo())
    assert Preprocessing().resized(once) is once


@pytest.mark.parametrize("size", [(1, 1), (3, 500), (500, 3), (8, 8), (1, 30_000), (4000, 10)])
def test_tiny_and_extreme_images_give_full_views(size):
    preprocessing = Preprocessing(image_size=32)
    image = Image.new("RGB", size, (10, 20, 30))
    for view in (
        preprocessing.centre_view(image),
        preprocessing.random_view(image, np.random.default_rng(0), may_flip=True),
    ):
        assert view.shape == (3, 32, 32)
        assert view.flatten(1).unique(dim=1).flatten().tolist() == [10, 20, 30]


def test_random_view_is_a_crop_and_is_flipped_half_of_the_time():
    preprocessing, generator = Preprocessing(image_size=8, crop_fraction=0.8), np.random.default_rng(0)
    lefts, flips = [], 0
    for _ in range(400):
        view = preprocessing.random_view(gradient(20, 10), generator, may_flip=True).int()
        step = (view[0, 0, 1] - view[0, 0, 0]).item()
        assert (view[0].diff(dim=1) == step).all() and (view[1].diff(dim=0) == 1).all()
        lefts.append(view[0].min().item())
        flips += step == -1
    assert set(lefts) == set(range(13))
    assert 160 < flips < 240


def test_forbidding_flips_keeps_the_crops():
    preprocessing = Preprocessing(image_size=8, crop_fraction=0.8)
    for seed in range(20):
        flipped = preprocessing.random_view(gradient(20, 10), np.random.default_rng(seed), may_flip=True)
        plain = preprocessing.random_view(gradient(20, 10), np.random.default_rng(seed), may_flip=False)
        assert torch.equal(plain, flipped) or torch.equal(plain, flipped.flip(-1))
        assert plain[0, 0, 1] > plain[0, 0, 0]


def test_same_generator_same_view():
    views = [Preprocessing().random_view(photo(), np.random.default_rng(3), may_flip=True) for _ in range(2)]
    assert torch.equal(*views)


def test_normalise_by_hand_for_any_leading_shape():
    preprocessing = Preprocessing(mean=(0.0, 0.5, 1.0), std=(1.0, 0.5, 2.0))
    views = torch.tensor([0, 255, 51], dtype=torch.uint8).view(3, 1, 1).expand(2, 5, 3, 4, 4)
    normalised = preprocessing.normalise(views)
    assert normalised.dtype == torch.float32 and normalised.shape == views.shape
    torch.testing.assert_close(normalised[1, 4, :, 0, 0], torch.tensor([0.0, 1.0, -0.4]))
    assert views.dtype == torch.uint8 and views[0, 0, 1, 0, 0] == 255


def test_preprocessing_survives_json():
    preprocessing = Preprocessing(image_size=96, interpolation="bilinear", mean=(0.1, 0.2, 0.3))
    assert build(Preprocessing, json.loads(json.dumps(preprocessing.to_json()))) == preprocessing


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("image_size", 0),
        ("crop_fraction", 0.0),
        ("crop_fraction", 1.5),
        ("interpolation", "nearest"),
        ("mean", (0.5, 0.5)),
        ("std", (1.0, 0.0, 1.0)),
        ("std", (1.0, float("nan"), 1.0)),
    ],
)
def test_impossible_preprocessing_is_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        Preprocessing(**{name: value})


def test_config_is_checked_and_described():
    assert set(field_docs(ViewSettings)) == {"recipe", "augmentation", "per_image", "sizes", "bank_gb"}
    with pytest.raises(ConfigError, match=r"views\.recipe"):
        ViewSettings(recipe="three-random")
    with pytest.raises(ConfigError, match=r"views\.per_image.*from 1"):
        ViewSettings(per_image=0)
    assert ViewSettings(per_image=0, sizes=(1.0, 1.5)).n_kept == 0
    with pytest.raises(ConfigError, match=r"views\.per_image.*from 0"):
        ViewSettings(per_image=-1, sizes=(1.0, 1.5))
    for sizes in ((), (0.0,), (1.0, float("nan")), (1.0, 1.0), (1.0, 50.0)):
        with pytest.raises(ConfigError, match=r"views\.sizes.*such as \[1, 1.25\]"):
            ViewSettings(sizes=sizes)
    with pytest.raises(ConfigError, match=r"views\.sizes = \[1.5\].*--image-size"):
        ViewSettings(sizes=(1.5,))


def test_feature_views_keep_the_feature_first_and_drop_a_tenth_of_the_others():
    features = torch.ones(200, 50)
    views = feature_views(features, 3, torch.Generator().manual_seed(0))
    assert views.shape == (200, 3, 50)
    assert torch.equal(views[:, 0], features)
    torch.testing.assert_close(views[:, 1:].unique(), torch.tensor([0.0, 1 / 0.9]))
    assert (views[:, 1:] == 0).float().mean().item() == pytest.approx(0.1, abs=0.01)
    assert not torch.equal(views[:, 1], views[:, 2])
