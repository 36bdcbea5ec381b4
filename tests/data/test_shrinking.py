"""Large images are shrunk at their first look, to exactly what a network would have been given later."""

import numpy as np
import pytest
from PIL import Image

from nngcd.core.user_cache import user_cache
from nngcd.data import image_files, shrinking
from nngcd.data.image_files import ImageFiles, check_files, readable_of
from nngcd.data.shrinking import Shrinker
from nngcd.views.preprocessing import Preprocessing

WANTED = Preprocessing(image_size=336)


@pytest.fixture
def photographs(tmp_path, monkeypatch, made_once):
    monkeypatch.setenv("NNGCD_HOME", str(tmp_path / "home"))
    return made_once(save_photographs, tmp_path / "photos")


def save_photographs(root):
    """Save large images of several kinds, a turned one among them, and a small one."""
    rng, exif = np.random.default_rng(0), Image.Exif()
    exif[0x0112] = 6
    for name, options in {
        "plain.jpg": {}, "turned.jpg": {"exif": exif}, "flat.png": {}, "seen.webp": {"quality": 80},
    }.items():  # fmt: skip
        coarse = Image.fromarray(rng.integers(0, 255, (12, 16, 3), dtype=np.uint8))
        coarse.resize((2400, 1800), Image.Resampling.BICUBIC).save(root / name, **options)
    grey = Image.open(root / "plain.jpg").convert("L")
    grey.save(root / "grey.jpg")
    grey.resize((640, 480)).save(root / "small.jpg")


@pytest.fixture
def shrinker(tmp_path):
    folder = tmp_path / "shrunk"
    folder.mkdir()
    return Shrinker(folder, lambda: WANTED)


def read(root, shrinker):
    names = sorted(path.name for path in root.iterdir())
    return readable_of(root, names, check_files(root, names, shrinker=shrinker)).images


def count_decoded(images, monkeypatch, short_side=WANTED.short_side):
    decoded = []
    decode = image_files.decode_rgb
    monkeypatch.setattr(image_files, "decode_rgb", lambda *a, **k: decoded.append(1) or decode(*a, **k))
    opened = [images.open(index, short_side) for index in range(len(images))]
    monkeypatch.setattr(image_files, "decode_rgb", decode)
    return opened, len(decoded)


def test_a_large_image_is_decoded_once_and_gives_the_same_view(photographs, shrinker, monkeypatch):
    images = read(photographs, shrinker)
    given, n_decoded = count_decoded(shrinker.before(images, WANTED), monkeypatch)
    assert n_decoded == 1  # the small one
    for index, image in enumerate(given):
        expected = WANTED.centre_view(images.open(index, WANTED.short_side))
        assert (WANTED.centre_view(image) == expected).all(), images.file_names[index]


def test_an_image_is_given_out_once_and_leaves_nothing(photographs, shrinker, tmp_path, monkeypatch):
    images = shrinker.before(read(photographs, shrinker), WANTED)
    assert len(list((tmp_path / "shrunk").iterdir())) == 5
    count_decoded(images, monkeypatch)
    assert not list((tmp_path / "shrunk").iterdir())
    assert count_decoded(images, monkeypatch)[1] == 6


def test_another_network_or_side_gets_the_image_itself(photographs, shrinker, monkeypatch):
    images = read(photographs, shrinker)
    assert shrinker.before(images, Preprocessing(image_size=224)) is images
    assert shrinker.before(images, Preprocessing(image_size=336, interpolation="bilinear")) is images
    shrunk = shrinker.before(images, WANTED)
    assert count_decoded(shrunk, monkeypatch, short_side=None)[1] == 6
    assert shrunk.open(0).size == (2400, 1800)


def test_a_jpeg_that_the_network_needs_in_another_size_is_not_kept(photographs, tmp_path):
    folder = tmp_path / "shrunk"
    folder.mkdir()
    read(photographs, Shrinker(folder, lambda: Preprocessing(image_size=700)))  # in full; the look takes a half
    assert len(list(folder.iterdir())) == 2  # those that are no JPEGs


def test_where_there_is_no_room_images_are_decoded_again(photographs, tmp_path, monkeypatch):
    monkeypatch.setattr(shrinking, "MOST_BYTES", 1_000_000)
    folder = tmp_path / "shrunk"
    folder.mkdir()
    shrinker = Shrinker(folder, lambda: WANTED)
    images = shrinker.before(read(photographs, shrinker), WANTED)
    assert count_decoded(images, monkeypatch)[1] == 5


def test_a_look_is_the_same_with_and_without(photographs, shrinker, tmp_path, monkeypatch):
    plain = read(photographs, None).looks
    for path in user_cache().rglob("*"):
        if path.is_file():
            path.unlink()
    assert read(photographs, shrinker).looks == plain


def test_small_images_ask_for_no_network(photographs, tmp_path):
    for path in photographs.iterdir():
        if path.name != "small.jpg":
            path.unlink()
    shrinker = Shrinker(tmp_path, lambda: pytest.fail("a network was loaded"))
    images = read(photographs, shrinker)
    assert isinstance(shrinker.before(images, WANTED), ImageFiles)
