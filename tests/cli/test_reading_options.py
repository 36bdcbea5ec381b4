"""Flags of reading: what was typed counts, also when it is 0."""

from __future__ import annotations

import pytest


@pytest.fixture
def one_is_broken(image_folder):
    (image_folder / "_unlabelled" / "broken.png").write_bytes(b"no image")
    return image_folder


def test_no_bad_file_is_borne_when_none_is_allowed(nngcd, one_is_broken, tmp_path):
    assert nngcd("check", one_is_broken, "--no-times", "--out", tmp_path / "c")[0] == 0
    code, out, _ = nngcd("check", one_is_broken, "--no-times", "--out", tmp_path / "c", "--allow-bad", "0")
    assert code == 3
    assert "more than 0% stops a fit" in out


@pytest.mark.parametrize("flag", [("--max-pixels", "0"), ("--max-pixels", "inf"), ("--label-level", "0")])
def test_a_flag_that_makes_no_sense_is_refused(nngcd, image_folder, tmp_path, flag):
    code, _, err = nngcd("check", image_folder, "--no-times", "--out", tmp_path / "c", *flag)
    assert code == 2
    assert flag[0].removeprefix("--") in err.replace("_", "-")
    assert "at least 1" in err
