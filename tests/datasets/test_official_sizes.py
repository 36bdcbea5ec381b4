"""Generated copies of the official sizes, read from disk as a user's copy is: the counts of Table I, and no warning."""

import os

import miniatures
import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from nngcd.datasets.opening import open_dataset
from nngcd.datasets.published_splits import published_split


def rows_of(classes):
    """Rows of a CIFAR batch, each different from all others."""
    rows_nd = np.zeros((len(classes), 3072), dtype=np.uint8)
    rows_nd[:, :4] = np.arange(len(classes), dtype="<u4")[:, None].view(np.uint8)
    return rows_nd


def spread(n_classes, n_per_class):
    return np.random.default_rng(0).permutation(np.repeat(np.arange(n_classes), n_per_class))


def cifar10(root):
    folder = root / "cifar-10-batches-py"
    for number, part in enumerate(np.split(spread(10, 5000), 5), start=1):
        miniatures.write_python2_pickle(
            folder / f"data_batch_{number}", {"labels": part.tolist(), "data": rows_of(part)}
        )
    miniatures.write_python2_pickle(folder / "batches.meta", {"label_names": miniatures.CIFAR10_NAMES})


def cifar100(root):
    classes = spread(100, 500)
    folder = root / "cifar-100-python"
    miniatures.write_python2_pickle(folder / "train", {"fine_labels": classes.tolist(), "data": rows_of(classes)})
    miniatures.write_python2_pickle(folder / "meta", {"fine_label_names": miniatures.CIFAR100_NAMES})


def stanford_cars(root):
    """8,144 images, 4,001 of them of old classes; how they share them is made up."""
    old = np.array(published_split("stanford_cars").old_classes)
    new = np.setdiff1d(np.arange(196), old)
    classes = np.random.default_rng(0).permutation(np.concatenate([np.resize(old, 4001), np.resize(new, 4143)]))
    miniatures.write_car_annotations(root / "devkit" / "cars_train_annos.mat", classes)
    names = np.array([f"Car {number}" for number in range(1, 197)], dtype=object)
    savemat(root / "devkit" / "cars_meta.mat", {"class_names": names})
    link_images(root / "cars_train", [f"{index + 1:05d}.jpg" for index in range(len(classes))])


def cub(root):
    """The real numbers of training images: 30 of each class, but 29 of six of them; test images are listed only."""
    sizes = {number: 29 if number in (107, 126, 135, 141, 190, 196) else 30 for number in range(1, 201)}
    listed = [(number, place < size) for number, size in sizes.items() for place in range(size + 29)]
    folder, names = root / "CUB_200_2011", [f"{index + 1}.jpg" for index in range(len(listed))]
    tables = {
        "images": names,
        "image_class_labels": [number for number, _ in listed],
        "train_test_split": [int(is_training) for _, is_training in listed],
        "classes": [f"{number:03d}.Bird" for number in sizes],
    }
    folder.mkdir()
    for name, values in tables.items():
        lines = [f"{index} {value}" for index, value in enumerate(values, start=1)]
        (folder / f"{name}.txt").write_text("\n".join(lines))
    link_images(folder / "images", [name for name, (_, is_training) in zip(names, listed, strict=True) if is_training])


def link_images(folder, names):
    """One tiny image under many names; the name is part of an image's id, so they stay different images."""
    folder.mkdir()
    Image.new("RGB", (1, 1)).save(folder / names[0])
    for name in names[1:]:
        os.link(folder / names[0], folder / name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "counts"),
    [
        (cifar10, (12_500, 37_500)),
        (cifar100, (20_000, 30_000)),
        (stanford_cars, (2_000, 6_144)),
        (cub, (1_498, 4_496)),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_copy_of_the_official_size_gives_table_1(write, counts, tmp_path):
    write(tmp_path)
    split, truth = open_dataset(str(tmp_path), dataset=write.__name__)
    assert (split.n_labelled, split.n_unlabelled) == counts
    assert len(truth.classes) == sum(counts)
    assert set(truth.classes[split.is_labelled].tolist()) <= set(range(truth.n_old))
    assert split.problems == ()
