from __future__ import annotations

import base64
import hashlib
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from nngcd.data.image_files import ImageFiles, check_file
from nngcd.data.split import image_table
from nngcd.report.thumbnails import CHANGED, make_thumbnails


def decoded(uri):
    head, content = uri.split(",")
    assert head == "data:image/jpeg;base64"
    return Image.open(BytesIO(base64.b64decode(content)))


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


def test_a_large_image_that_was_looked_at_is_not_decoded_again(tmp_path, monkeypatch):
    monkeypatch.setenv("NNGCD_HOME", str(tmp_path / "home"))
    Image.new("RGB", (2500, 2000), "teal").save(tmp_path / "large.jpg")
    content_hash = check_file(tmp_path / "large.jpg").content_hash
    monkeypatch.setattr(ImageFiles, "open", None)
    table = image_table(["large.jpg"], [content_hash])
    made = make_thumbnails(ImageFiles(tmp_path, ("large.jpg",)), table, [0])
    assert decoded(made.by_row[0]).size == (140, 112)
    assert np.abs(np.asarray(decoded(made.by_row[0])).astype(int) - (0, 128, 128)).max() < 5
