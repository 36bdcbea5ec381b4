from __future__ import annotations

import base64
import hashlib
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from nngcd.datasets.image_files import ImageFiles
from nngcd.datasets.split import image_table
from nngcd.report.thumbnails import CHANGED, data_uri, make_thumbnails, thumbnail


def decoded(uri):
    head, content = uri.split(",")
    assert head == "data:image/jpeg;base64"
    return Image.open(BytesIO(base64.b64decode(content)))


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


@pytest.fixture
def folder(tmp_path):
    ramp = np.linspace(0, 60_000, 64 * 64).reshape(64, 64).astype(np.uint16)
    Image.fromarray(ramp).save(tmp_path / "deep.png")
    for name in ("gone.png", "changed.png", "broken.png"):
        Image.new("RGB", (30, 30), "teal").save(tmp_path / name)
    names = ["deep.png", "gone.png", "changed.png", "broken.png"]
    hashes = [hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in names]
    return tmp_path, image_table(names, hashes)


def test_images_are_decoded_as_in_training_and_lost_ones_get_a_reason(folder):
    root, table = folder
    (root / "gone.png").unlink()
    Image.new("RGB", (30, 30), "red").save(root / "changed.png")
    (root / "broken.png").write_bytes(b"\x89PNG nothing more")
    made = make_thumbnails(ImageFiles(root, tuple(table["file_name"])), table, [0, 1, 2, 3])
    assert set(made.by_row) == {0}
    assert made.problems[2] == CHANGED
    assert "No such file" in made.problems[1]
    assert "truncated" in made.problems[3]
    grey = np.asarray(decoded(made.by_row[0]).convert("L"))
    assert grey[0, 0] < 20  # Pillow's own conversion would clip nearly everything to white
    assert 100 < np.median(grey) < 155


def test_a_thumbnail_is_small():
    noise = np.random.default_rng(0).integers(0, 255, size=(500, 700, 3), dtype=np.uint8)
    assert len(data_uri(thumbnail(Image.fromarray(noise)))) < 30_000
