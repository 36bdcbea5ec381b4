import numpy as np

from nngcd.datasets.digits import load


def test_digits_are_the_benchmark_as_described():
    split, truth = load(None)
    assert (len(split), split.n_classes, split.image_size, split.may_flip) == (1797, 10, 96, False)
    assert split.class_names == tuple("01234")
    n_old = int(truth.is_old.sum())
    assert (n_old, split.n_labelled) == (901, 450)
    assert truth.class_names == tuple("0123456789") and truth.n_old == 5
    assert (split.labels[split.is_labelled] == truth.classes[split.is_labelled]).all()
    assert split.table["image_id"].is_unique


def test_pixels_use_the_whole_range():
    image = np.asarray(load(None)[0].images.open(0))
    assert image.shape == (8, 8, 3)
    assert image.max() <= 255 and image[0, 2, 0] == round(5 * 255 / 16)


def test_the_draw_is_always_the_same():
    assert load(None)[0].fingerprint == load(None)[0].fingerprint
