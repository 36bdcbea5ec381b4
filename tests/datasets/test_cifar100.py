import miniatures
import pytest

from nngcd.core.errors import DataError, NngcdWarning
from nngcd.datasets.cifar100 import load


def test_fine_classes_are_read_in_the_order_of_the_file(miniature_of):
    root = miniature_of("cifar100")
    with pytest.warns(NngcdWarning, match="'cifar100' should have 20,000 labelled and 30,000 unlabelled"):
        split, truth = load(root)
    assert truth.classes.tolist() == miniatures._shuffled(100, 2).tolist()
    assert truth.class_names == tuple(miniatures.CIFAR100_NAMES)
    assert (split.n_old, split.class_names[79], truth.class_names[80]) == (80, "spider", "squirrel")
    assert split.n_labelled == 80


def test_a_missing_file_is_named(miniature_of):
    root = miniature_of("cifar100")
    (root / "cifar-100-python" / "meta").unlink()
    for folder in (root, root / "cifar-100-python"):
        with pytest.raises(DataError, match=r"which lacks .*meta\. Expected train, meta .*cifar-100-python.tar.gz"):
            load(folder)


def test_png_folders_named_by_class_are_in_alphabetical_order(miniature_of):
    with pytest.warns(NngcdWarning):
        _, truth = load(miniature_of("cifar100_png"))
    assert truth.class_names == tuple(miniatures.CIFAR100_NAMES)


def test_png_folders_named_by_number_are_in_the_order_of_numbers(miniature_of):
    folder = miniature_of("cifar100_png") / "train"
    for number, name in enumerate(miniatures.CIFAR100_NAMES):
        (folder / name).rename(folder / str(number))
    with pytest.warns(NngcdWarning):
        split, truth = load(folder.parent)
    assert truth.class_names == tuple(str(number) for number in range(100))
    assert split.table["file_name"][4] == "2/baby_0.png"
