import pytest

from nngcd.core.errors import DataError, NngcdWarning
from nngcd.datasets.benchmark import Request
from nngcd.datasets.imagenet100 import load
from nngcd.datasets.published_splits import published_split

CLASS_IDS = published_split("imagenet100").class_ids


def load_miniature(root, **options):
    with pytest.warns(NngcdWarning, match="'imagenet100' should have about 31,900 labelled and 95,300 unlabelled"):
        return load(root, Request(**options))


def test_the_100_classes_are_read_by_folder_and_file_name(miniature_of):
    split, truth = load_miniature(miniature_of("imagenet100"))
    assert split.table["file_name"].tolist() == [
        f"{name}/{name}_{place}.JPEG" for name in CLASS_IDS for place in range(3)
    ]
    assert truth.class_names == CLASS_IDS
    assert split.class_names == CLASS_IDS[:50]
    assert truth.classes.tolist() == [number for number in range(100) for _ in range(3)]


def test_the_training_folder_itself_is_accepted_and_other_files_are_left_alone(miniature_of):
    root = miniature_of("imagenet100")
    (root / "train" / CLASS_IDS[0] / "notes.txt").write_text("x")
    (root / "train" / CLASS_IDS[0] / ".DS_Store").write_text("x")
    assert load_miniature(root)[0].fingerprint == load_miniature(root / "train")[0].fingerprint


def test_a_class_folder_may_be_a_link(miniature_of, tmp_path):
    root = miniature_of("imagenet100")
    (root / "train" / CLASS_IDS[3]).rename(tmp_path / "elsewhere")
    (root / "train" / CLASS_IDS[3]).symlink_to(tmp_path / "elsewhere")
    assert len(load_miniature(root)[0]) == 300


def test_files_that_are_links_to_elsewhere_are_listed_as_problems(miniature_of, tmp_path):
    root = miniature_of("imagenet100")
    image = root / "train" / CLASS_IDS[3] / f"{CLASS_IDS[3]}_0.JPEG"
    image.rename(tmp_path / "elsewhere.JPEG")
    image.symlink_to(tmp_path / "elsewhere.JPEG")
    split, _ = load_miniature(root)
    assert [(problem.file_name, problem.code) for problem in split.problems] == [
        (f"{CLASS_IDS[3]}/{image.name}", "D19")
    ]


def test_missing_classes_are_named(miniature_of):
    root = miniature_of("imagenet100")
    for name in CLASS_IDS[5:7]:
        (root / "train" / name).rename(root / name.upper())
    with pytest.raises(DataError, match=rf"which lacks train/{CLASS_IDS[5]}, train/{CLASS_IDS[6]}\. .*\(100 in all\)"):
        load(root)
