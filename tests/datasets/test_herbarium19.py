import shutil

import pytest

from nngcd.core.errors import DataError, NngcdWarning
from nngcd.datasets.benchmark import Request
from nngcd.datasets.herbarium19 import load
from nngcd.datasets.published_splits import published_split


@pytest.fixture
def miniature(miniature_at):
    return miniature_at("herbarium19")


def load_miniature(root, **options):
    with pytest.warns(NngcdWarning, match="'herbarium19' should have about 8,900 labelled and 25,400 unlabelled"):
        return load(root, Request(**options))


def test_classes_are_numbered_by_folder_names_sorted_as_text(miniature):
    split, truth = load_miniature(miniature)
    names = sorted(str(number) for number in range(683))
    assert split.table["file_name"].tolist() == [f"{name}/{name}_{place}.jpg" for name in names for place in range(2)]
    old = [names[place] for place in published_split("herbarium19").old_classes]
    assert old[:3] == ["0", "1", "100"]
    assert split.class_names == tuple(old)
    of_images = [truth.class_names[number] for number in truth.classes]
    assert of_images == [name.partition("/")[0] for name in split.table["file_name"]]


def test_a_missing_class_folder_is_refused_because_it_would_move_the_others(miniature, tmp_path):
    shutil.copytree(miniature / "small-train", tmp_path / "small-train", ignore=shutil.ignore_patterns("17", "*.jpg"))
    with pytest.raises(DataError, match=r"small-train' must hold 683 class folders, found 682.*complete"):
        load(tmp_path)


def test_test_images_are_numbered_by_the_training_folders_though_a_class_may_have_none(miniature, tmp_path):
    (tmp_path / "small-train").symlink_to(miniature / "small-train")
    left_out = shutil.ignore_patterns("17")
    shutil.copytree(miniature / "small-validation", tmp_path / "small-validation", ignore=left_out)
    with pytest.warns(NngcdWarning, match="should have 2,679 test images, found 682 test images"):
        split, truth = load(tmp_path, Request(part="test"))
    of_images = [truth.class_names[number] for number in truth.classes]
    assert of_images == [name.partition("/")[0] for name in split.table["file_name"]]


def test_the_folder_that_holds_it_is_accepted(miniature, tmp_path):
    (tmp_path / "herbarium_19").symlink_to(miniature)
    assert len(load_miniature(tmp_path)[0]) == 2 * 683
