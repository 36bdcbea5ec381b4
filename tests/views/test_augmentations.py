from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch
from PIL import Image, ImageChops, ImageFilter

from nngcd.core.errors import ConfigError
from nngcd.core.seeds import numpy_generator
from nngcd.core.torchvision_ops import make_torchvision_importable
from nngcd.data.image_arrays import ImageArrays
from nngcd.views import augmentations
from nngcd.views.augmentations import OPERATIONS, Picture, crop_box, transformed, turned_hue
from nngcd.views.loading import ViewDataset
from nngcd.views.preprocessing import Preprocessing, ViewSettings, as_tensor

KINDS = ["crop", "distorted", "affine", "randaugment", "dino"]
SMALL = Preprocessing(image_size=56)


def photo(width=90, height=70, seed=0):
    noise = np.random.default_rng(seed).integers(1, 256, (height // 10, width // 10, 3)).astype(np.uint8)
    return Image.fromarray(noise).resize((width, height), Image.Resampling.BILINEAR)


def view(kind, image=None, *, seed=0, number=0, may_flip=True):
    image = image or photo()
    picture = Picture(image, SMALL.resized(image), SMALL, may_flip)
    return picture.random_view(kind, np.random.default_rng(seed), number=number)


def in_hsv(image):
    return np.array(image.convert("HSV")).astype(int)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [(90, 70), (70, 90), (56, 56), (1, 300), (300, 1), (3, 3)])
def test_a_view_is_a_square_that_only_the_generator_decides(kind, size):
    image = photo(*size) if min(size) > 9 else Image.new("RGB", size, (10, 20, 30))
    first = view(kind, image)
    assert (first.dtype, first.shape) == (torch.uint8, (3, 56, 56))
    assert torch.equal(first, view(kind, image))
    if size == (90, 70):
        assert len({hashlib.sha256(view(kind, image, seed=s).numpy().tobytes()).hexdigest() for s in range(30)}) > 20


@pytest.mark.parametrize("kind", KINDS)
def test_the_image_itself_stays_as_it_is(kind):
    image = photo()
    for seed in range(20):
        view(kind, image, seed=seed)
    assert ImageChops.difference(image, photo()).getbbox() is None


def test_crops_are_those_of_the_preprocessing_one_after_the_other():
    images = ImageArrays(np.random.default_rng(0).integers(0, 256, (3, 70, 90, 3)).astype(np.uint8))
    generator = numpy_generator(5, "train/0", 1)
    found = ViewDataset(images, SMALL, seed=5, n_random=3, may_flip=True, purpose="train/0")[1]
    expected = [SMALL.random_view(images.open(1), generator, may_flip=True) for _ in range(3)]
    assert torch.equal(found, torch.stack([SMALL.centre_view(images.open(1)), *expected]))


@pytest.mark.parametrize("kind", ["crop", "randaugment", "dino"])
def test_flips_happen_half_of_the_time_where_they_may(kind, monkeypatch):
    monkeypatch.setattr(augmentations, "OPERATIONS", {"nothing": lambda image, generator: image})
    left_to_right = Image.fromarray(np.tile(np.linspace(0, 255, 90, dtype=np.uint8)[:, None], (70, 1, 3)))

    def n_flipped(may_flip):
        views = [view(kind, left_to_right, seed=s, may_flip=may_flip).float() for s in range(200)]
        return sum((v[..., :20].mean() > v[..., -20:].mean()).item() for v in views)

    assert n_flipped(may_flip=False) == 0
    assert 70 < n_flipped(may_flip=True) < 130


def test_affine_views_hold_the_whole_image_with_black_around_it():
    white = Image.new("RGB", (90, 70), (255, 255, 255))
    for seed in range(100):
        shown = (view("affine", white, seed=seed)[0] > 0).float()
        # A square made 0.7 to 0.875 times as large keeps 0.49 to 0.766 of the area, less what a shift pushes out.
        assert 0.4 < shown.mean() < 0.78
        corners = shown[[0, 0, -1, -1], [0, -1, 0, -1]]
        assert (corners == 0).sum() >= 2


def test_affine_views_are_drawn_from_the_published_ranges(monkeypatch):
    drawn = []
    monkeypatch.setattr(augmentations, "transformed", lambda image, **values: drawn.append(values) or image)
    for seed in range(500):
        view("affine", seed=seed)
    for name, low, high in [("angle", -45, 45), ("shear", -15, 15), ("scale", 0.7, 0.875), ("shift", -6, 6)]:
        values = np.array([each[name] for each in drawn])
        assert low <= values.min() < low + 0.02 * (high - low)
        assert high - 0.02 * (high - low) < values.max() <= high
    assert all((each["shift"] == np.round(each["shift"])).all() for each in drawn)


def test_an_affine_map_is_torchvisions():
    make_torchvision_importable()
    from torchvision.transforms import functional

    for angle, shear, scale, shift in [(30, 10, 0.8, (3, -5)), (-45, -15, 0.7, (-5, 0)), (0, 0, 0.875, (0, 0))]:
        theirs = np.array(functional.affine(photo(), angle, list(shift), scale, [shear, 0]))
        ours = np.array(transformed(photo(), angle=angle, shear=shear, scale=scale, shift=np.array(shift)))
        # Pixels halfway between two may be rounded to either.
        assert (ours != theirs).mean() < 0.002


def test_rand_augment_has_sixteen_operations():
    image = photo(300, 200)
    assert len(OPERATIONS) == 16
    done = {name: operation(image, np.random.default_rng(0)) for name, operation in OPERATIONS.items()}
    same = {name for name, result in done.items() if ImageChops.difference(result, image).getbbox() is None}
    assert same == {"solarise"}
    assert all(result.size == image.size for result in done.values())


@pytest.mark.parametrize(
    ("name", "column", "row"),
    [
        ("shear_x", lambda x, y, s: x + s * 0.3 * y, lambda x, y, s: y),
        ("shear_y", lambda x, y, s: x, lambda x, y, s: y + s * 0.3 * x),
        ("shift_x", lambda x, y, s: x + s * 100, lambda x, y, s: y),
        ("shift_y", lambda x, y, s: x, lambda x, y, s: y + s * 100),
    ],
)
def test_shears_and_shifts_take_a_pixel_from_where_they_should(name, column, row):
    x, y = np.meshgrid(np.arange(250), np.arange(240))
    image = Image.fromarray(np.stack([x, y, np.full_like(x, 255)], -1).astype(np.uint8))
    signs = set()
    for seed in range(10):
        found = np.array(OPERATIONS[name](image, np.random.default_rng(seed))).astype(int)
        agreeing = []
        for sign in (1, -1):
            at = column(x, y, sign), row(x, y, sign)
            is_inside = (at[0] > 1) & (at[0] < 248) & (at[1] > 1) & (at[1] < 238)
            if (abs(np.stack(at, -1) - found[..., :2])[is_inside] <= 1).all():
                agreeing.append(sign)
        assert len(agreeing) == 1
        signs.update(agreeing)
    assert signs == {1, -1}


def test_the_other_operations_by_hand():
    def after(name, *colours):
        image = Image.fromarray(np.array([colours], dtype=np.uint8))
        return np.array(OPERATIONS[name](image, np.random.default_rng(0)))[0].tolist()

    assert after("invert", (0, 100, 255)) == [[255, 155, 0]]
    assert after("posterise", (15, 16, 255)) == [[0, 16, 240]]
    assert after("solarise", (0, 128, 255)) == [[0, 128, 255]]
    assert after("solarise_brighter", (0, 17, 18)) == [[110, 127, 255 - 128]]
    assert after("solarise_brighter", (200, 200, 200)) == [[0, 0, 0]]
    assert after("brightness", (10, 100, 200)) == [[19, 190, 255]]
    assert after("contrast", (100, 100, 100), (120, 120, 120)) == [[91] * 3, [129] * 3]
    assert after("autocontrast", (100, 100, 100), (120, 120, 120)) == [[0] * 3, [255] * 3]


def test_a_cut_out_is_a_grey_square_of_forty_pixels():
    for seed in range(20):
        found = np.array(OPERATIONS["cut_out"](Image.new("RGB", (300, 200)), np.random.default_rng(seed)))
        rows, columns = np.nonzero(found.any(-1))
        assert (found[rows, columns] == augmentations.GREY).all()
        height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
        assert len(rows) == height * width
        assert 20 <= min(height, width) and max(height, width) <= 41


def test_rand_augment_takes_two_operations_with_replacement(monkeypatch):
    taken = []
    record = {name: lambda image, generator, name=name: taken.append(name) or image for name in OPERATIONS}
    monkeypatch.setattr(augmentations, "OPERATIONS", record)
    for seed in range(400):
        view("randaugment", seed=seed)
    pairs = np.array(taken).reshape(400, 2)
    assert set(pairs.flatten()) == set(OPERATIONS)
    assert 10 <= (pairs[:, 0] == pairs[:, 1]).sum() <= 45


def test_dino_blurs_the_first_view_always_and_solarises_the_second_at_times(monkeypatch):
    radii, n_solarised = [], []
    blur = ImageFilter.GaussianBlur
    monkeypatch.setattr(ImageFilter, "GaussianBlur", lambda radius: radii.append(radius) or blur(radius))
    solarise = augmentations.ImageOps.solarize
    monkeypatch.setattr(augmentations.ImageOps, "solarize", lambda image: n_solarised.append(1) or solarise(image))
    for seed in range(300):
        view("dino", seed=seed, number=0)
    assert (len(radii), len(n_solarised)) == (300, 0)
    assert 0.1 <= min(radii) < 0.15 and 1.95 < max(radii) <= 2
    for seed in range(300):
        view("dino", seed=seed, number=1)
    assert 15 <= len(radii) - 300 <= 50
    assert 40 <= len(n_solarised) <= 85


def test_dino_views_are_grey_a_fifth_of_the_time():
    n_grey = sum(bool((v == v[:1]).all()) for v in (view("dino", seed=s, number=1) for s in range(300)))
    assert 40 <= n_grey <= 85


def test_a_data_set_draws_the_two_kinds_of_dino_views_in_turn(monkeypatch):
    numbers = []
    monkeypatch.setitem(
        augmentations._DRAW,
        "dino",
        lambda picture, generator, number: numbers.append(number) or as_tensor(photo(56, 56)),
    )
    images = ImageArrays(np.zeros((1, 70, 90, 3), dtype=np.uint8))
    ViewDataset(images, SMALL, seed=0, n_random=2, may_flip=True, purpose="x", augmentation="dino")[0]
    assert numbers == [0, 1]


def test_crops_have_the_areas_and_aspects_of_random_resized_crops():
    generator = np.random.default_rng(0)
    boxes = np.array([crop_box((400, 300), generator) for _ in range(2000)])
    assert boxes.min() >= 0 and boxes[:, 2].max() <= 400 and boxes[:, 3].max() <= 300
    width, height = (boxes[:, 2:] - boxes[:, :2]).T
    assert 0.39 < (width * height).min() / 120_000 < 0.42 and (width * height).max() / 120_000 > 0.95
    assert 0.74 < (width / height).min() < 0.8 and 1.3 < (width / height).max() < 1.35
    # Where no part has such an aspect, it is the middle.
    assert crop_box((10, 1000), generator) == (0, 493, 10, 506)
    assert crop_box((1000, 10), generator) == (493, 0, 506, 10)


def test_hue_turns_and_the_rest_stays():
    make_torchvision_importable()
    from torchvision.transforms import functional

    for change in (0.1, -0.1, 0.03):
        assert np.array_equal(turned_hue(photo(), change), functional.adjust_hue(photo(), change))
    assert abs(in_hsv(turned_hue(photo(), 0.1))[..., 2] - in_hsv(photo())[..., 2]).max() <= 1


def test_recipe_and_augmentation_make_one_kind():
    for kind in ("crop", "affine", "randaugment", "dino"):
        assert ViewSettings(augmentation=kind).kind == kind
    assert ViewSettings(recipe="strong+weak").kind == "distorted"
    with pytest.raises(ConfigError, match=r"views\.augmentation = 'dino'.*strong\+weak"):
        ViewSettings(recipe="strong+weak", augmentation="dino")
