"""Near-identical images are found, and images that only look alike are not."""

from __future__ import annotations

import numpy as np
import pytest
from photographs import CHANGES, encoded, photograph
from PIL import Image, ImageDraw

from nngcd.data.decoding import probe
from nngcd.data.looks import look_vectors
from nngcd.data.near_copies import EXACT_UP_TO, LARGEST, NONE, _grouped, copies_of_looks, near_copies
from nngcd.datasets.arrays import from_arrays


@pytest.fixture
def photographs(rng):
    return [photograph(rng) for _ in range(30)]


def looks_of(files):
    return [probe(data).look for data in files]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_copy_is_found(photographs, change):
    copies = [CHANGES[change](image) for image in photographs]
    near = copies_of_looks(looks_of([encoded(image, quality=90) for image in photographs] + copies))
    assert (near[:30] == near[30:]).mean() >= 0.9
    assert (near[:30] != NONE).mean() >= 0.9


def test_a_burst_is_one_group_whatever_the_order(photographs, rng):
    looks = looks_of([make(image) for image in photographs for make in CHANGES.values()])
    near = copies_of_looks(looks).reshape(30, -1)
    assert (near == near[:, :1]).all(1).mean() > 0.9
    order = rng.permutation(len(looks))
    again = copies_of_looks([looks[index] for index in order])
    pairs = set(zip(near.ravel()[order].tolist(), again.tolist(), strict=True))
    assert len(pairs) == len(set(near.ravel())) == len(set(again))


def test_a_turned_photograph_is_compared_upright(photographs):
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = [encoded(image.transpose(Image.Transpose.ROTATE_90), exif=exif) for image in photographs]
    near = copies_of_looks(looks_of([encoded(image) for image in photographs] + turned))
    assert (near[:30] == near[30:]).all()


def product(rng, shape):
    """Return a thing on white: a few shapes, of any colour, with a label."""
    image = Image.new("RGB", (200, 200), "white")
    draw, colour = ImageDraw.Draw(image), tuple(rng.integers(30, 220, 3).tolist())
    (draw.ellipse if shape else draw.rectangle)((50, 30, 150, 180), fill=colour)
    for _ in range(3):
        x, y = rng.integers(60, 100), rng.integers(60, 140)
        draw.rectangle((x, y, x + 40, y + 10), fill=tuple(rng.integers(0, 256, 3).tolist()))
    return image


def speck(rng, _):
    paper = Image.fromarray((235 + rng.normal(0, 2, (100, 100))).clip(0, 255).astype(np.uint8))
    x, y = rng.integers(5, 90, 2).tolist()
    ImageDraw.Draw(paper).ellipse((x, y, x + 4, y + 4), fill=120)
    return paper


def ramp(rng, _):
    angle, (y, x) = rng.uniform(0, 2 * np.pi), np.mgrid[:100, :100] / 100
    return Image.fromarray((128 + 50 * (np.cos(angle) * x + np.sin(angle) * y)).astype(np.uint8))


@pytest.mark.parametrize("kind", [product, speck, ramp])
def test_images_that_only_look_alike_are_no_copies(rng, kind):
    near = copies_of_looks(looks_of([encoded(kind(rng, index % 2), "PNG") for index in range(120)]))
    assert (near != NONE).mean() <= 0.05


def test_different_photographs_and_scanned_digits_are_no_copies(photographs):
    from sklearn.datasets import load_digits

    assert (copies_of_looks(looks_of([encoded(image) for image in photographs])) == NONE).all()
    digits = (load_digits().images * 255 / 16).astype(np.uint8)
    assert (near_copies(from_arrays(digits)) != NONE).mean() < 0.005


def test_equal_looks_are_copies_and_uniform_images_have_none(rng):
    flat = [bytes([level, level, level]) * 64 for level in range(20)]
    assert (copies_of_looks(flat + flat) == NONE).all()
    assert not look_vectors(flat)[1].any()
    looks = [rng.integers(0, 256, 192, dtype=np.uint8).tobytes() for _ in range(3)]
    assert copies_of_looks([*looks[:2] * 40, looks[2]]).tolist() == [0, 1] * 40 + [NONE]
    assert copies_of_looks([]).tolist() == []


def test_nearly_equal_features_are_copies_and_tight_categories_are_not(rng, blobs):
    features = rng.normal(size=(50, 32)).astype(np.float32)
    both = np.concatenate([features, features + 0.001 * rng.normal(size=features.shape)])
    near = near_copies(from_arrays(both))
    assert (near[:50] == near[50:]).all()
    assert (near != NONE).all()
    assert (near_copies(from_arrays(blobs[0])) == NONE).all()
    assert (near_copies(from_arrays(both[:, :8])) == NONE).all()


def test_many_images_give_the_groups_of_an_exact_search(rng, monkeypatch):
    centre = rng.normal(size=(1000, 60))
    vector = np.concatenate([centre, centre[:300] + 0.1 * rng.normal(size=(300, 60))])
    vector = (vector / np.linalg.norm(vector, axis=1, keepdims=True)).astype(np.float32)
    seen = np.ones(len(vector), dtype=bool)
    exact = _grouped(vector, seen, (0.05,))
    assert EXACT_UP_TO > len(vector)
    monkeypatch.setattr("nngcd.data.near_copies.EXACT_UP_TO", 100)
    cells = _grouped(vector, seen, (0.05,))
    assert (exact[:300] == exact[1000:]).all()
    assert ((cells[:300] == cells[1000:]) & (cells[:300] != NONE)).mean() > 0.97


def test_a_crowd_is_no_group(rng):
    crowd = rng.normal(size=60) + 0.05 * rng.normal(size=(LARGEST + 5, 60))
    vector = np.concatenate([crowd, 10 * rng.normal(size=(20, 60))])
    vector = (vector / np.linalg.norm(vector, axis=1, keepdims=True)).astype(np.float32)
    assert (_grouped(vector, np.ones(len(vector), dtype=bool), (0.05,)) == NONE).all()
