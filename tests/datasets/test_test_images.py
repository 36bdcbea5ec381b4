"""The official test images of the seven benchmarks, on miniature copies."""

import shutil
from functools import cache

import numpy as np
import pytest

from nngcd.core.errors import DataError, NngcdWarning
from nngcd.datasets.opening import open_dataset
from nngcd.datasets.published_splits import published_names, published_split

NAMES = published_names()


def open_part(root, name, part):
    with pytest.warns(NngcdWarning, match=f"'{name}' should have .*found"):
        return open_dataset(str(root), dataset=name, part=part)


@pytest.fixture(scope="module")
def parts_of(miniature_at):
    """Training and test images of the miniature of each benchmark, opened once."""
    return cache(lambda name: [open_part(miniature_at(name), name, part) for part in ("train", "test")])


@pytest.mark.parametrize("name", NAMES)
def test_they_are_of_the_same_classes_carry_no_labels_and_are_no_training_images(parts_of, name):
    (train, train_truth), (test, truth) = parts_of(name)
    published = published_split(name)
    assert (len(test), test.n_labelled, test.problems) == (published.n_classes, 0, ())
    assert sorted(truth.classes.tolist()) == list(range(published.n_classes))
    assert (truth.class_names, truth.n_old) == (train_truth.class_names, train_truth.n_old)
    assert (test.class_names, test.n_classes) == (train.class_names, train.n_classes)
    assert test.table["split"].unique().tolist() == ["test"]
    assert not set(test.table["image_id"]) & set(train.table["image_id"])


@pytest.mark.parametrize("name", NAMES)
def test_each_shows_its_class(parts_of, name):
    """Images of a class have its colour in a miniature, so a wrong numbering of the classes shows."""
    (train, train_truth), (test, truth) = parts_of(name)
    for number in (0, truth.n_old, len(truth.class_names) - 1):
        first, second = int(np.argmax(train_truth.classes == number)), int(np.argmax(truth.classes == number))
        colours = [np.asarray(split.images.open(i)).mean((0, 1)) for split, i in ((train, first), (test, second))]
        assert np.abs(colours[0] - colours[1]).max() < 12


@pytest.mark.parametrize(
    ("name", "gone", "message"),
    [
        ("cifar10", "cifar-10-batches-py/test_batch", r"no test images of CIFAR-10 .*lacks cifar-10-batches-py/test_b"),
        ("cifar100", "cifar-100-python/test", r"no test images of CIFAR-100 .*lacks cifar-100-python/test"),
        ("cub", "CUB_200_2011/train_test_split.txt", r"lacks CUB_200_2011/train_test_split.txt"),
        ("fgvc_aircraft", "fgvc-aircraft-2013b/data/images_variant_test.txt", r"lacks .*images_variant_test.txt"),
        ("herbarium19", "small-validation", r"no test images of Herbarium 19 .*lacks small-validation"),
        ("imagenet100", "val", r"no test images of ImageNet-100 .*Expected .*'val'.*ILSVRC2012_img_val"),
        ("stanford_cars", "devkit/cars_test_annos_withlabels.mat", r"lacks .*cars_test_annos_withlabels.mat"),
        ("stanford_cars_csv", "anno_test.csv", r"lacks anno_test.csv"),
    ],
)
def test_when_they_are_not_there_the_message_says_what_was_expected_where(miniature_of, name, gone, message):
    path = (root := miniature_of(name)) / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(DataError, match=message):
        open_dataset(str(root), dataset=name.removesuffix("_csv"), part="test")


def test_other_forms_give_the_same_test_images(miniature_of):
    root = miniature_of("stanford_cars")
    before, truth = open_part(root, "stanford_cars", "test")
    (root / "devkit" / "cars_test_annos_withlabels.mat").rename(root / "cars_test_annos_withlabels.mat")
    assert open_part(root, "stanford_cars", "test")[0].fingerprint == before.fingerprint
    _, by_row = open_part(miniature_of("stanford_cars_csv"), "stanford_cars", "test")
    assert by_row.classes.tolist() == truth.classes.tolist()
    png, png_truth = open_part(miniature_of("cifar10_png"), "cifar10", "test")
    assert (len(png), png_truth.classes.tolist()) == (10, list(range(10)))
    assert len(open_part(miniature_of("imagenet100") / "train", "imagenet100", "test")[0]) == 100


def test_data_without_test_images_are_refused(birds):
    for data in (str(birds), "digits"):
        with pytest.raises(DataError, match="has no official test images; benchmarks have: cifar10"):
            open_dataset(data, part="test")
