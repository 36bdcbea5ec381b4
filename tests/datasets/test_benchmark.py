"""What holds for all seven benchmarks, on miniature copies, and the counts on lists of the official sizes."""

import inspect
from pathlib import Path

import numpy as np
import pytest

from nngcd.core.components import find_component
from nngcd.core.errors import DataError, NngcdWarning
from nngcd.datasets.benchmark import Listing, Request, split_arrays, split_files
from nngcd.datasets.opening import open_dataset
from nngcd.datasets.published_splits import published_names, published_split

NAMES = published_names()


def listing_of_sizes(name, *, n_old_images, n_images, seed=0):
    """A list in which every class has an image, old classes have so many together, and the order is mixed."""
    published = published_split(name)
    new = sorted(set(range(published.n_classes)) - set(published.old_classes))
    sizes = zip((published.old_classes, new), (n_old_images, n_images - n_old_images), strict=True)
    classes = np.concatenate([np.resize(group, size) for group, size in sizes])
    return Listing(
        name=name,
        file_names=[f"image-{index}" for index in range(n_images)],
        classes=np.random.default_rng(seed).permutation(classes).astype(np.int64),
        class_names=[str(index) for index in range(published.n_classes)],
    )


@pytest.fixture(scope="module")
def opened(miniature_at):
    """Split and truth of the miniature of each benchmark, opened as the command line does."""
    found = {}
    for name in NAMES:
        with pytest.warns(NngcdWarning, match=f"'{name}' should have .*found"):
            found[name] = open_dataset(str(miniature_at(name)), dataset=name)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_opens_by_name_with_all_its_classes(opened, name):
    split, truth = opened[name]
    published = published_split(name)
    assert (split.name, split.n_classes, split.problems) == (name, published.n_classes, ())
    assert split.n_old == truth.n_old == len(published.old_classes)
    assert len(np.unique(truth.classes)) == len(truth.class_names) == published.n_classes
    assert split.table["split"].unique().tolist() == ["train"]
    assert (split.image_size, split.may_flip) == (None, True)
    assert split.images.open(0).mode == "RGB"


@pytest.mark.parametrize("name", NAMES)
def test_the_labelled_half_is_the_field_s_draw_over_the_official_order(opened, name):
    split, truth = opened[name]
    candidates = np.flatnonzero(truth.is_old)
    np.random.seed(0)  # noqa: NPY002 (the field's code, word for word)
    drawn = np.random.choice(range(len(candidates)), replace=False, size=(int(0.5 * len(candidates)),))  # noqa: NPY002
    assert np.flatnonzero(split.is_labelled).tolist() == sorted(candidates[drawn].tolist())
    assert (split.labels[split.is_labelled] == truth.classes[split.is_labelled]).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_root_says_what_was_expected_where(name, tmp_path):
    load = find_component("nngcd.datasets", name, "load").load
    assert list(inspect.signature(load).parameters) == ["root", "request"]
    for root, state in ((tmp_path / "nothing", "is not a folder"), (tmp_path, "has other files")):
        with pytest.raises(DataError, match=f"D01: no .* in '.*', which {state}. Expected .* there"):
            load(root)
    with pytest.raises(DataError, match=f"'{name}' needs the folder of .*there"):
        load(None)


@pytest.mark.parametrize(
    ("name", "n_old_images", "counts"),
    [
        ("cifar10", 25_000, (12_500, 37_500)),
        ("cifar100", 40_000, (20_000, 30_000)),
        ("cub", 2_997, (1_498, 4_496)),
        ("stanford_cars", 4_001, (2_000, 6_144)),  # the class sizes are made up; half of an odd number is rounded down
    ],
)
def test_lists_of_the_official_sizes_give_table_1_without_a_warning(name, n_old_images, counts):
    listing = listing_of_sizes(name, n_old_images=n_old_images, n_images=sum(counts))
    split, truth = split_arrays(listing, np.zeros((sum(counts), 1, 1, 3), dtype=np.uint8))
    assert (split.n_labelled, split.n_unlabelled, int(truth.is_old.sum())) == (*counts, n_old_images)


@pytest.mark.parametrize(
    ("name", "n_old_images", "n_images", "is_right"),
    [
        ("fgvc_aircraft", 3_330, 6_667, True),  # 1,665 and 5,002, which Table I rounds
        ("fgvc_aircraft", 3_330, 6_666, False),
        ("fgvc_aircraft", 2_900, 6_667, False),
        ("herbarium19", 17_740, 34_225, True),
        ("imagenet100", 63_800, 127_200, True),
        ("stanford_cars", 4_002, 8_144, False),
    ],
)
def test_other_counts_are_warned_of_up_to_the_rounding_of_the_table(name, n_old_images, n_images, is_right):
    listing = listing_of_sizes(name, n_old_images=n_old_images, n_images=n_images)
    pixels_nhwc = np.zeros((n_images, 1, 1, 3), dtype=np.uint8)
    if is_right:
        split_arrays(listing, pixels_nhwc)
        return
    with pytest.warns(
        NngcdWarning, match=rf"should have .* labelled.*found {n_old_images // 2:,} labelled and .*is complete\."
    ):
        split_arrays(listing, pixels_nhwc)


def test_lists_that_cannot_be_are_refused():
    with pytest.raises(DataError, match="has 10 classes, but this copy names 9"):
        Listing(name="cifar10", file_names=["a"], classes=np.zeros(1, np.int64), class_names=list("123456789"))
    for number in (-1, 10):
        with pytest.raises(DataError, match="outside its 10"):
            Listing(name="cifar10", file_names=["a"], classes=np.array([number]), class_names=list("0123456789"))


def test_a_part_without_images_is_refused(tmp_path):
    nothing = np.zeros(0, np.int64)
    listing = Listing(name="cifar10", file_names=[], classes=nothing, class_names=list("0123456789"))
    with pytest.raises(DataError, match="'cifar10' lists no training images"):
        split_files(listing, tmp_path)
    with pytest.raises(DataError, match="'cifar10' lists no test images"):
        split_arrays(listing, np.zeros((0, 1, 1, 3), np.uint8), Request(part="test"))


@pytest.mark.parametrize("name", ["../secret.png", "/etc/secret.png", "a/../../secret.png", "C:\\secret.png"])
def test_paths_out_of_the_folder_are_refused(name, tmp_path):
    listing = Listing(name="cifar10", file_names=[name], classes=np.zeros(1, np.int64), class_names=list("0123456789"))
    with pytest.raises(DataError, match="D18: 'cifar10' lists a file outside"):
        split_files(listing, Path(tmp_path))
