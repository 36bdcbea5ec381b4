from pathlib import Path

import numpy as np
import pytest

from nngcd.core.errors import DataError
from nngcd.datasets.cub import load
from nngcd.datasets.published import published_split

REAL = Path(__file__).parents[3] / "shared" / "data" / "cub"
N_PER_CLASS = 4


@pytest.fixture
def miniature(tmp_path, save_image):
    """The official layout with four images of every tenth class; the last image of each class is a test image."""
    folder = tmp_path / "CUB_200_2011"
    lines = {"images": [], "image_class_labels": [], "train_test_split": []}
    for number in range(1, 201, 10):
        for place in range(N_PER_CLASS):
            image_id = len(lines["images"]) + 1
            name = f"{number:03d}.Bird/{number}_{place}.png"
            save_image(folder / "images" / name)
            lines["images"].append(f"{image_id} {name}")
            lines["image_class_labels"].append(f"{image_id} {number}")
            lines["train_test_split"].append(f"{image_id} {int(place < N_PER_CLASS - 1)}")
    lines["classes"] = [f"{number} {number:03d}.Bird" for number in range(1, 201)]
    for name, content in lines.items():
        (folder / f"{name}.txt").write_text("\n".join(content) + "\n")
    return folder


def test_training_images_are_split_as_published(miniature):
    split, truth = load(miniature)
    old = set(published_split("cub").old_classes)
    numbers = [int(name[:3]) - 1 for name in split.table["file_name"]]
    assert len(split) == 20 * (N_PER_CLASS - 1)
    assert truth.is_old.tolist() == [number in old for number in numbers]
    assert [truth.class_names[index][:3] for index in truth.classes] == [f"{number + 1:03d}" for number in numbers]
    assert (split.n_old, split.n_classes, truth.n_old) == (100, 200, 100)
    assert split.table["split"].unique().tolist() == ["train"]


def test_the_labelled_half_is_the_field_s_draw(miniature):
    split, truth = load(miniature, seed=5)
    candidates = np.flatnonzero(truth.is_old)
    np.random.seed(0)  # noqa: NPY002 (the field's code, word for word)
    drawn = np.random.choice(range(len(candidates)), replace=False, size=(int(0.5 * len(candidates)),))  # noqa: NPY002
    assert np.flatnonzero(split.is_labelled).tolist() == sorted(candidates[drawn].tolist())
    assert (split.labels[split.is_labelled] == truth.classes[split.is_labelled]).all()


def test_the_folder_above_is_accepted(miniature):
    assert load(miniature)[0].fingerprint == load(miniature.parent)[0].fingerprint


def test_absent_files_are_listed_and_do_not_move_other_labels(miniature):
    whole = load(miniature)[0]
    labels = dict(zip(whole.table["file_name"], whole.labels, strict=True))
    gone = whole.table["file_name"][7]
    (miniature / "images" / gone).unlink()
    split, truth = load(miniature)
    assert [(problem.file_name, problem.reason) for problem in split.problems] == [(gone, "missing")]
    assert len(truth.classes) == len(split) == len(whole) - 1
    assert all(labels[name] == label for name, label in zip(split.table["file_name"], split.labels, strict=True))
    for name in split.table["file_name"][:10]:
        (miniature / "images" / name).unlink()
    with pytest.raises(DataError, match="D15: 11 of 60 images"):
        load(miniature)


def test_a_wrong_root_says_what_was_expected_where(miniature, tmp_path):
    for root, state in ((tmp_path / "nothing", "is not a folder"), (miniature / "images", "holds something else")):
        with pytest.raises(DataError, match=f"{state}.*images.txt.*CUB_200_2011"):
            load(root)
    with pytest.raises(DataError, match="needs the folder"):
        load(None)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("classes.txt", "1 a\n2 b\n", "must number 200 classes"),
        ("image_class_labels.txt", "1 1\n", "do not fit together"),
        ("train_test_split.txt", "".join(f"{index} 0\n" for index in range(1, 81)), "no training images"),
        ("image_class_labels.txt", "".join(f"{index} 201\n" for index in range(1, 81)), "classes outside"),
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
