import dataclasses

import pytest

from nngcd.core.errors import DataError
from nngcd.datasets.published_splits import published_names, published_split

TABLE_1 = {
    "cifar10": ("12.5K", "37.5K"),
    "cifar100": ("20.0K", "30.0K"),
    "cub": ("1.5K", "4.5K"),
    "fgvc_aircraft": ("1.7K", "5.0K"),
    "herbarium19": ("8.9K", "25.4K"),
    "imagenet100": ("31.9K", "95.3K"),
    "stanford_cars": ("2.0K", "6.1K"),
}
COUNTS = {
    "cifar10": (10, 5),
    "cifar100": (100, 80),
    "cub": (200, 100),
    "fgvc_aircraft": (100, 50),
    "herbarium19": (683, 341),
    "imagenet100": (100, 50),
    "stanford_cars": (196, 98),
}


@pytest.mark.parametrize("name", COUNTS)
def test_every_benchmark_has_its_published_counts(name):
    split = published_split(name)
    assert (split.n_classes, len(split.old_classes)) == COUNTS[name]
    assert list(split.old_classes) == sorted(set(split.old_classes))
    assert 0 <= split.old_classes[0] and split.old_classes[-1] < split.n_classes
    assert split.source.endswith(".") and split.index_meaning


@pytest.mark.parametrize("name", COUNTS)
def test_the_numbers_of_images_are_those_of_table_1(name):
    split = published_split(name)
    assert (f"{split.n_labelled / 1000:.1f}K", f"{split.n_unlabelled / 1000:.1f}K") == TABLE_1[name]
    if split.counts_rounded_to == 1:
        assert split.n_labelled + split.n_unlabelled == split.n_images


def test_training_and_test_images_make_up_the_whole():
    """The sizes their authors give for the whole datasets; of ImageNet, 50 validation images of each class.

    Herbarium 19: README_2019.md of github.com/visipedia/herbarium_comp, with 9,565 images whose labels are secret.
    """
    for name, n_whole in (("cifar10", 60_000), ("cub", 11_788), ("fgvc_aircraft", 10_000), ("stanford_cars", 16_185)):
        assert published_split(name).n_images + published_split(name).n_test == n_whole
    assert published_split("cifar100").n_test == 10_000
    assert published_split("imagenet100").n_test == 100 * 50
    assert published_split("herbarium19").n_images + published_split("herbarium19").n_test + 9_565 == 46_469


def test_all_seven_are_there_and_a_wrong_name_gets_a_suggestion():
    assert published_names() == tuple(COUNTS)
    with pytest.raises(DataError, match="Did you mean 'cifar10'"):
        published_split("cifar_10")


def test_known_members_of_the_splits():
    assert published_split("cifar100").old_classes == tuple(range(80))
    assert {5, 150, 199} <= set(published_split("cub").old_classes)
    assert not {29, 20, 152} & set(published_split("cub").old_classes)
    assert published_split("imagenet100").class_ids[0] == "n01443537"
    assert len(set(published_split("imagenet100").class_ids)) == 100


def test_the_fingerprint_sees_the_classes_and_not_the_words():
    split = published_split("cub")
    assert split.fingerprint == dataclasses.replace(split, source="elsewhere").fingerprint
    assert split.fingerprint == dataclasses.replace(split, n_labelled=1).fingerprint
    assert split.fingerprint != dataclasses.replace(split, old_classes=split.old_classes[1:]).fingerprint
    assert len({published_split(name).fingerprint for name in COUNTS}) == 7
