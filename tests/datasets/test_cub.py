from pathlib import Path

import numpy as np
import pytest

from nngcd.core.errors import DataError, NngcdWarning
from nngcd.datasets.benchmark import Request
from nngcd.datasets.cub import load
from nngcd.datasets.published_splits import published_split

REAL = Path(__file__).parents[3] / "shared" / "data" / "cub"
N_PER_CLASS = 4


@pytest.fixture
def miniature(miniature_of):
    return miniature_of("cub") / "CUB_200_2011"


def load_miniature(root, **options):
    with pytest.warns(NngcdWarning, match="'cub' should have 1,498 labelled and 4,496 unlabelled"):
        return load(root, Request(**options))


def test_training_images_are_split_as_published(miniature):
    split, truth = load_miniature(miniature)
    old = set(published_split("cub").old_classes)
    numbers = [int(name[:3]) - 1 for name in split.table["file_name"]]
    assert len(split) == 200 * (N_PER_CLASS - 1)
    assert truth.is_old.tolist() == [number in old for number in numbers]
    assert [truth.class_names[index][:3] for index in truth.classes] == [f"{number + 1:03d}" for number in numbers]
    assert (split.n_old, split.n_classes, truth.n_old) == (100, 200, 100)
    assert split.table["split"].unique().tolist() == ["train"]


def test_the_folder_above_is_accepted(miniature):
    assert load_miniature(miniature)[0].fingerprint == load_miniature(miniature.parent)[0].fingerprint


def test_absent_files_are_listed_and_do_not_move_other_labels(miniature):
    whole = load_miniature(miniature)[0]
    labels = dict(zip(whole.table["file_name"], whole.labels, strict=True))
    gone = whole.table["file_name"][7]
    (miniature / "images" / gone).unlink()
    split, truth = load_miniature(miniature)
    assert [(problem.file_name, problem.reason) for problem in split.problems] == [(gone, "missing")]
    assert len(truth.classes) == len(split) == len(whole) - 1
    assert all(labels[name] == label for name, label in zip(split.table["file_name"], split.labels, strict=True))
    for name in split.table["file_name"][:80]:
        (miniature / "images" / name).unlink()
    with pytest.raises(DataError, match="D15: 81 of 600 images"):
        load(miniature)


def test_a_half_copied_archive_is_named(miniature):
    (miniature / "classes.txt").unlink()
    with pytest.raises(
        DataError, match=r"which lacks CUB_200_2011/classes.txt. Expected images.txt, .*CUB_200_2011.tgz"
    ):
        load(miniature.parent)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("classes.txt", "1 a\n2 b\n", "must number 200 classes"),
        ("image_class_labels.txt", "1 1\n", "do not match"),
        ("train_test_split.txt", "".join(f"{index} 0\n" for index in range(1, 801)), "no training images"),
        ("image_class_labels.txt", "".join(f"{index} 201\n" for index in range(1, 801)), "classes outside"),
    ],
)
def test_tables_that_do_not_fit_are_refused(miniature, name, content, message):
    (miniature / name).write_text(content)
    with pytest.raises(DataError, match=message):
        load(miniature)


@pytest.mark.skipif(not REAL.is_dir(), reason="the real CUB-200-2011 is not here")
def test_the_real_data_give_the_published_counts():
    split, truth = load(REAL)
    assert (len(split), split.n_labelled, split.n_unlabelled) == (5994, 1498, 4496)
    assert (split.n_old, int(truth.is_old.sum()), len(np.unique(truth.classes))) == (100, 2997, 200)
    assert split.problems == ()
