from __future__ import annotations

import hashlib
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from nngcd.core.errors import ConfigError
from nngcd.data.split import image_table
from nngcd.datasets import digits
from nngcd.results.images import find_folder, find_pictures

SETTINGS = {"data": "nowhere", "dataset": None, "reading": {}}
IMAGES = {"backbone": "efficientnet_lite0"}


@pytest.fixture
def pictures(tmp_path) -> tuple[Path, pd.DataFrame]:
    """Two images three levels below a folder, as benchmarks keep them, and their rows of results."""
    names, folder = ["a/1.png", "b/2.png"], tmp_path / "archive" / "images"
    for name in names:
        (folder / name).parent.mkdir(parents=True)
        Image.new("RGB", (8, 8), "navy").save(folder / name)
    hashes = [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names]
    return tmp_path, image_table(names, hashes)


def test_files_are_found_in_the_data_folder_or_below(pictures):
    root, results = pictures
    for data in (root, root / "archive", root / "archive" / "images"):
        found = find_pictures(IMAGES, {**SETTINGS, "data": str(data)}, results, None)
        assert found.images.open(1).size == (8, 8)


def test_files_are_found_beside_a_manifest_and_in_its_image_root(pictures):
    root, results = pictures
    table = root / "archive" / "images" / "labels.csv"
    table.write_text("file_name,label\n")
    assert find_pictures(IMAGES, {**SETTINGS, "data": str(table)}, results, None).images is not None
    other = {**SETTINGS, "reading": {"image_root": str(root / "archive" / "images")}}
    assert find_pictures(IMAGES, other, results, None).images is not None


def test_moved_images_are_found_with_a_new_root_and_a_wrong_root_is_refused(pictures, tmp_path):
    root, results = pictures
    assert find_pictures(IMAGES, SETTINGS, results, root).images is not None
    (tmp_path / "empty").mkdir()
    for wrong in (tmp_path / "empty", tmp_path / "absent"):
        with pytest.raises(ConfigError, match=r"--root = .* does not hold the images of this run, such as 'a/1.png'"):
            find_pictures(IMAGES, SETTINGS, results, wrong)


def test_of_two_folders_with_these_file_names_the_one_with_the_same_images_is_taken(pictures):
    root, results = pictures
    for name in results["file_name"]:
        (root / "archive" / "a test set" / name).parent.mkdir(parents=True)
        Image.new("RGB", (8, 8), "red").save(root / "archive" / "a test set" / name)
    assert find_folder({**SETTINGS, "data": str(root)}, results, None) == root / "archive" / "images"
    changed = results.assign(image_id=["1", "2"])
    assert find_folder(SETTINGS, changed, root) == root / "archive" / "a test set", "the first, to say what changed"
    assert find_folder(SETTINGS, results.iloc[:0], root) is None


def test_missing_images_give_a_reason_and_the_way_out(pictures):
    _, results = pictures
    found = find_pictures(IMAGES, SETTINGS, results, None)
    assert found.images is None
    assert "moved or deleted" in found.why_none
    assert "--root FOLDER" in found.why_none


def test_images_that_are_no_files_are_opened_again(pictures):
    _, results = pictures
    found = find_pictures(IMAGES, {**SETTINGS, "data": "digits"}, results, None)
    assert found.images is None
    assert "have changed since the run" in found.why_none


def test_images_that_were_taken_out_leave_the_others_in_place():
    results = load_digits_rows([5, 2])
    found = find_pictures(IMAGES, {**SETTINGS, "data": "digits"}, results, None)
    split = digits.load()[0]
    assert [found.images.fingerprint(i) for i in (0, 1)] == [split.images.fingerprint(i) for i in (5, 2)]


def load_digits_rows(rows):
    return digits.load()[0].table.iloc[rows].reset_index(drop=True)


def test_features_have_no_pictures(pictures):
    _, results = pictures
    assert "made from features" in find_pictures({"backbone": "features"}, SETTINGS, results, None).why_none


def test_names_that_lead_out_of_the_folder_are_not_followed(tmp_path):
    results = pd.DataFrame({"file_name": ["a.png", "../b.png"], "image_id": ["1", "2"]})
    found = find_pictures({"backbone": "x"}, {"data": str(tmp_path), "reading": {}}, results, tmp_path)
    assert found.images is None
    assert "D18" in found.why_none
