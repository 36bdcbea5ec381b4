from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from nngcd.data.thumbnails import thumbnail, thumbnail_jpeg


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((1000, 500), (224, 112)),
        ((100, 2000), (11, 224)),
        ((8, 8), (112, 112)),
        ((80, 80), (80, 80)),
        ((1, 900), (1, 224)),
    ],
)
def test_thumbnails_keep_their_shape_within_bounds(size, expected):
    assert thumbnail(Image.new("RGB", size)).size == expected


def test_pixels_of_tiny_images_stay_squares():
    pixels = np.zeros((2, 2, 3), dtype=np.uint8)
    pixels[0, 0] = 255
    large = np.asarray(thumbnail(Image.fromarray(pixels)))
    assert large.shape[:2] == (112, 112)
    assert (large[:56, :56] == 255).all()
    assert (large[56:] == 0).all()


def test_a_thumbnail_is_small():
    noise = np.random.default_rng(0).integers(0, 255, size=(500, 700, 3), dtype=np.uint8)
    assert len(thumbnail_jpeg(Image.fromarray(noise))) < 22_500
