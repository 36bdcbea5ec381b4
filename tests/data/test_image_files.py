import hashlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nngcd.core.errors import DataError
from nngcd.data import image_files
from nngcd.data.decoding import Decoding
from nngcd.data.image_files import (
    ALLOWED_BAD,
    ImageFiles,
    check_file,
    check_files,
    open_rgb,
    readable_of,
    unreadable_reason,
)
from nngcd.data.split import Problem


def keep_readable(root, names, *, allow_bad=ALLOWED_BAD, **how):
    return readable_of(root, names, check_files(root, names, **how), allow_bad=allow_bad)


def test_a_file_is_read_by_its_content(tmp_path, save_image):
    png = save_image(tmp_path / "a.png")
    for name in ("renamed.jpg", "UPPER.PNG", "no_extension"):
        path = png.rename(tmp_path / name)
        assert open_rgb(path).size == (6, 8)
        assert unreadable_reason(path) is None
        png = path


def test_an_unreadable_file_is_named_and_a_vanished_one_is_told_apart(tmp_path):
    (tmp_path / "empty.jpg").touch()
    with pytest.raises(DataError, match=r"empty\.jpg': 0 bytes"):
        open_rgb(tmp_path / "empty.jpg")
    with pytest.raises(DataError, match=r"gone\.jpg': No such file or directory, although it existed when"):
        open_rgb(tmp_path / "gone.jpg")
    assert unreadable_reason(tmp_path / "gone.jpg") == "missing"
    assert unreadable_reason(tmp_path) is not None


def test_image_files_open_and_hash(tmp_path, save_image):
    path = save_image(tmp_path / "sub" / "a b.png")
    images = ImageFiles(tmp_path, ("sub/a b.png",))
    assert len(images) == 1
    assert (np.asarray(images.open(0)) == np.asarray(Image.open(path))).all()
    assert images.fingerprint(0) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_only_the_content_that_was_hashed_is_opened(tmp_path, save_image):
    path = save_image(tmp_path / "a.png")
    images = keep_readable(tmp_path, ["a.png"]).images
    assert images.open(0).size == (6, 8)
    save_image(path)
    with pytest.raises(DataError, match=r"D04: '.*a\.png' changed while the run was reading it"):
        images.open(0)


def test_good_files_are_kept_and_bad_ones_listed(tmp_path, save_image):
    names = [f"{index}.png" for index in range(20)]
    for name in names:
        save_image(tmp_path / name)
    (tmp_path / "3.png").write_bytes((tmp_path / "3.png").read_bytes()[:-30])
    progress = []
    readable = keep_readable(
        tmp_path, [*names, "gone.png"], n_workers=2, on_progress=lambda *step: progress.append(step)
    )
    assert readable.problems == (Problem("3.png", "D03", "truncated"), Problem("gone.png", "D15", "missing"))
    assert readable.kept.tolist() == [index for index in range(20) if index != 3]
    assert readable.images.file_names == tuple(name for name in names if name != "3.png")
    assert progress == [(done, 21) for done in range(1, 22)]


def test_each_file_is_read_once(tmp_path, save_image, monkeypatch):
    path = save_image(tmp_path / "a.png")
    content = hashlib.sha256(path.read_bytes()).hexdigest()
    reads = []
    read_bytes = type(path).read_bytes
    monkeypatch.setattr(type(path), "read_bytes", lambda self: reads.append(self.name) or read_bytes(self))
    readable = keep_readable(tmp_path, ["a.png"])
    assert readable.images.fingerprint(0) == readable.content_hashes[0] == content
    assert reads.count("a.png") == 1


def test_too_many_bad_files_stop_with_the_way_out(tmp_path, save_image):
    names = [f"{index}.png" for index in range(8)]
    for name in names:
        save_image(tmp_path / name)
    (tmp_path / "0.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"1 of 8 images .* '0\.png': 0 bytes.*allow_bad=0\.13"):
        keep_readable(tmp_path, names)
    assert len(keep_readable(tmp_path, names, allow_bad=0.13).images) == 7


def test_a_tenth_is_still_allowed_but_never_all(tmp_path, save_image):
    names = [f"{index}.png" for index in range(10)]
    for name in names[1:]:
        save_image(tmp_path / name)
    assert len(keep_readable(tmp_path, names).images) == 9
    with pytest.raises(DataError, match="None is left"):
        keep_readable(tmp_path, names[:1], allow_bad=1.0)


def test_an_image_over_the_pixel_limit_is_listed_under_its_own_code(tmp_path, save_image, monkeypatch):
    save_image(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    check = image_files.check_file(tmp_path / "a.png")
    assert (check.code, check.reason) == ("D20", "over the pixel limit (48 pixels)")


def test_a_file_larger_than_any_image_is_not_read(tmp_path, monkeypatch):
    Image.new("RGB", (4, 4)).save(tmp_path / "good.png")
    with (tmp_path / "huge.jpg").open("wb") as file:
        file.truncate(40 * 10**9)  # takes no room on the disk
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail("read") if path.name == "huge.jpg" else b"")
    check = check_file(tmp_path / "huge.jpg")
    assert check.code == "D20"
    assert check.reason == "too large (40.0 GB; an image within the pixel limit takes up to 1.4 GB)"
    with pytest.raises(DataError, match=r"huge\.jpg': too large \(40\.0 GB"):
        open_rgb(tmp_path / "huge.jpg")
    with pytest.raises(DataError, match=r"huge\.jpg': too large \(40\.0 GB"):
        ImageFiles(tmp_path, ("huge.jpg",)).fingerprint(0)


def test_a_larger_pixel_limit_lets_larger_files_in(tmp_path):
    with (tmp_path / "huge.jpg").open("wb") as file:
        file.truncate(200)
    assert check_file(tmp_path / "huge.jpg", Decoding(max_pixels=24)).code == "D20"
    assert check_file(tmp_path / "huge.jpg", Decoding(max_pixels=25)).reason == "unknown format"
