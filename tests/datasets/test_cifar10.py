import miniatures
import numpy as np
import pytest

from nngcd.core.errors import DataError, NngcdWarning
from nngcd.datasets.benchmark import Request
from nngcd.datasets.cifar10 import load


def load_miniature(root, **options):
    with pytest.warns(NngcdWarning, match="'cifar10' should have 12,500 labelled and 37,500 unlabelled"):
        return load(root, Request(**options))


def test_batches_are_read_in_their_order(miniature_of):
    split, truth = load_miniature(miniature_of("cifar10"))
    assert truth.classes.tolist() == miniatures._shuffled(10, 5).tolist()
    assert truth.class_names == tuple(miniatures.CIFAR10_NAMES)
    assert split.class_names == ("airplane", "automobile", "bird", "cat", "deer")
    assert split.table["file_name"].tolist()[:2] == ["train-00000", "train-00001"]
    expected = miniatures._pixels(int(truth.classes[7]), seed=7, size=32)
    assert (np.asarray(split.images.open(7)) == expected).all()


def test_the_folder_itself_is_accepted(miniature_of):
    root = miniature_of("cifar10")
    assert load_miniature(root)[0].fingerprint == load_miniature(root / "cifar-10-batches-py")[0].fingerprint


def test_a_missing_batch_is_named(miniature_of):
    root = miniature_of("cifar10")
    (root / "cifar-10-batches-py" / "data_batch_4").unlink()
    with pytest.raises(DataError, match=r"which lacks cifar-10-batches-py/data_batch_4\. Expected .*cifar-10-python"):
        load(root)


@pytest.mark.parametrize(
    "content",
    [
        {"labels": [0]},
        {"data": np.zeros((1, 3072), np.uint8), "labels": [0, 1]},
        {"data": np.zeros((1, 3072), np.float32), "labels": [0]},
        {"data": np.zeros((1, 3000), np.uint8), "labels": [0]},
        {"data": np.zeros((1, 3072), np.uint8), "labels": ["cat"]},
        {"data": [0] * 3072, "labels": [0]},
    ],
)
def test_batches_of_another_content_are_refused(miniature_of, content):
    root = miniature_of("cifar10")
    miniatures.write_python2_pickle(root / "cifar-10-batches-py" / "data_batch_2", content)
    with pytest.raises(DataError, match="data_batch_2' must hold 'data', rows of 3,072 bytes, and 'labels'"):
        load(root)


def test_class_names_must_be_a_list_of_ten(miniature_of):
    root = miniature_of("cifar10")
    for names, message in (("cat dog", "must hold 'label_names'"), (["cat", "dog"], "this copy names 2")):
        miniatures.write_python2_pickle(root / "cifar-10-batches-py" / "batches.meta", {"label_names": names})
        with pytest.raises(DataError, match=message):
            load(root)


def test_png_files_are_listed_by_class_and_name_and_their_order_is_warned_of(miniature_of):
    with pytest.warns(NngcdWarning) as caught:
        split, truth = load(miniature_of("cifar10_png"))
    assert ["do not keep the official order" in str(one.message) for one in caught] == [True, False]
    assert truth.classes.tolist() == np.repeat(np.arange(10), 4).tolist()
    assert truth.class_names == tuple(miniatures.CIFAR10_NAMES)
    assert (split.n_labelled, split.table["file_name"][4]) == (10, "automobile/automobile_0.png")


def test_png_folders_must_be_as_many_as_classes(tmp_path):
    (tmp_path / "train" / "cat").mkdir(parents=True)
    with pytest.raises(DataError, match=r"train' must hold 10 class folders, found 1, first 'cat'"):
        load(tmp_path)
