"""The stratified draw, an option of all benchmarks; the field's own is tested with the benchmarks."""

import numpy as np
import pytest

from nngcd.core.errors import ConfigError, NngcdWarning
from nngcd.data.reading_settings import ReadingSettings
from nngcd.data.split import draw_stratified
from nngcd.datasets.benchmark import Listing, Request, split_arrays
from nngcd.datasets.opening import open_dataset
from nngcd.datasets.published_splits import published_names, published_split

STRATIFIED = ReadingSettings(draw="stratified")


def test_half_of_each_old_class_rounded_down_and_at_least_one():
    classes = np.repeat([0, 1, 2, 3, 5], [7, 4, 1, 2, 9])
    is_labelled = draw_stratified(classes, n_old=5, generator=np.random.default_rng(0))
    assert np.bincount(classes[is_labelled], minlength=6).tolist() == [3, 2, 1, 1, 0, 0]
    others = [draw_stratified(classes, n_old=5, generator=np.random.default_rng(seed)).tolist() for seed in range(9)]
    assert others[0] == is_labelled.tolist()
    assert any(other != is_labelled.tolist() for other in others)


@pytest.mark.slow
@pytest.mark.parametrize("name", published_names())
def test_every_benchmark_can_be_drawn_by_class(miniature_at, name):
    def opened(reading):
        with pytest.warns(NngcdWarning, match=f"'{name}' should have .*found"):
            return open_dataset(str(miniature_at(name)), dataset=name, reading=reading)

    (split, truth), (pooled, _) = opened(STRATIFIED), opened(ReadingSettings())
    of_class = np.bincount(truth.classes, minlength=split.n_classes)[: split.n_old]
    assert np.bincount(split.labels[split.is_labelled], minlength=split.n_old).tolist() == (of_class // 2).tolist()
    assert split.fingerprint == opened(STRATIFIED)[0].fingerprint
    assert split.fingerprint != pooled.fingerprint


def test_the_note_speaks_of_the_draw_and_not_of_a_broken_copy():
    published = published_split("cub")
    # The training images of CUB-200-2011: 30 of each class, but 29 of six of them.
    sizes = np.full(200, 30)
    sizes[[106, 125, 134, 140, 189, 195]] = 29
    listing = Listing(
        name="cub",
        file_names=[f"image-{index}" for index in range(sizes.sum())],
        classes=np.repeat(np.arange(200), sizes),
        class_names=[str(number) for number in range(200)],
    )
    pixels_nhwc = np.zeros((len(listing.classes), 1, 1, 3), dtype=np.uint8)
    split, _ = split_arrays(listing, pixels_nhwc)
    assert (split.n_labelled, split.n_unlabelled) == (published.n_labelled, published.n_unlabelled)
    n_labelled = int((sizes[list(published.old_classes)] // 2).sum())
    message = f"stratified draw: 'cub' has {n_labelled:,} labelled and .*published draw gives about 1,498 labelled"
    with pytest.warns(NngcdWarning, match=message) as caught:
        split_arrays(listing, pixels_nhwc, Request(draw="stratified"))
    assert len(caught) == 1
    assert "complete" not in str(caught[0].message)


def test_digits_too_and_data_with_labels_of_their_own_refuse_it(birds):
    split, truth = open_dataset("digits", reading=STRATIFIED)
    of_class = np.bincount(truth.classes)[:5]
    assert np.bincount(split.labels[split.is_labelled]).tolist() == (of_class // 2).tolist()
    with pytest.raises(ConfigError, match=r"reading.draw = 'stratified': .*has its own labels"):
        open_dataset(str(birds), reading=STRATIFIED)
