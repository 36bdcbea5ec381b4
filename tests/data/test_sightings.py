"""Large images are decoded once for all commands; what is kept is never trusted blindly."""

import numpy as np
import pytest
from PIL import Image

from nngcd.core.user_cache import user_cache
from nngcd.data import image_files
from nngcd.data.decoding import Decoding
from nngcd.data.image_files import check_file


@pytest.fixture
def photograph(tmp_path, monkeypatch, rng):
    monkeypatch.setenv("NNGCD_HOME", str(tmp_path / "home"))
    coarse = Image.fromarray(rng.integers(0, 255, (6, 8, 3), dtype=np.uint8))
    coarse.resize((2400, 1800), Image.Resampling.BICUBIC).save(tmp_path / "photo.jpg")
    return tmp_path / "photo.jpg"


@pytest.fixture
def no_decoding(monkeypatch):
    def forbid():
        monkeypatch.setattr(image_files, "probe", None)

    return forbid


def kept():
    return [path for path in user_cache().rglob("*") if path.is_file()]


def test_what_was_seen_is_found_under_another_name(photograph, no_decoding):
    first = check_file(photograph)
    assert first.facts.look and not first.facts.thumbnail
    no_decoding()
    moved = photograph.rename(photograph.with_name("renamed.jpg"))
    assert check_file(moved) == first


def test_what_is_kept_is_not_used_for_other_content_or_settings(photograph, no_decoding):
    assert check_file(photograph).reason is None
    assert "over the pixel limit" in check_file(photograph, Decoding(max_pixels=10**6)).reason
    photograph.write_bytes(photograph.read_bytes()[:5000])
    assert check_file(photograph).reason == "truncated"
    assert len(kept()) == 1


@pytest.mark.parametrize("damage", [b"", b"{}", b"0\n{}", b"\xff" * 300])
def test_damage_is_looked_at_again(photograph, damage):
    first = check_file(photograph)
    (path,) = kept()
    good = path.read_bytes()
    path.write_bytes(damage or good[:-9])
    assert check_file(photograph) == first
    assert path.read_bytes() == good


def test_small_images_leave_nothing(photograph):
    Image.open(photograph).resize((640, 480)).save(photograph)
    assert check_file(photograph).reason is None
    assert kept() == []


def test_a_cache_that_cannot_be_written_is_no_obstacle(photograph, monkeypatch):
    monkeypatch.setenv("NNGCD_HOME", str(photograph))
    assert check_file(photograph).reason is None
