from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from nngcd.core.seeds import torch_generator
from nngcd.data.image_arrays import ImageArrays
from nngcd.views.loading import ViewDataset, balanced_batches, view_loader
from nngcd.views.preprocessing import Preprocessing


class Pictures:
    """Noise images."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def open(self, index, short_side=None):
        pixels = np.random.default_rng(index).integers(0, 256, (20, 24, 3)).astype(np.uint8)
        return Image.fromarray(pixels)

    def fingerprint(self, index):
        return str(index)


def dataset(n=11, purpose="views", seed=0, n_random=2):
    preprocessing = Preprocessing(image_size=12, crop_fraction=0.75)
    return ViewDataset(Pictures(n), preprocessing, seed=seed, n_random=n_random, may_flip=True, purpose=purpose)


def labels_with(n_labelled, n_unlabelled):
    return np.array([0] * n_labelled + [-1] * n_unlabelled)


def test_half_of_the_draws_are_labelled():
    labels = labels_with(1_000, 9_000)
    drawn = balanced_batches(labels, 128, torch_generator(0, "sampler"))
    assert [len(image_b) for image_b in drawn] == [128] * (10_000 // 128)
    assert (labels[torch.cat(drawn).numpy()] >= 0).mean() == pytest.approx(0.5, abs=0.02)


def test_the_draws_are_those_of_the_public_code():
    labels = labels_with(3, 7)
    weights = [1.0] * 3 + [3 / 7] * 7
    sampler = torch.utils.data.WeightedRandomSampler(weights, num_samples=10, generator=torch_generator(0, "sampler"))
    expected = list(sampler)
    drawn = balanced_batches(labels, 4, torch_generator(0, "sampler"))
    assert torch.cat(drawn).tolist() == expected[:8]
    with_last = balanced_batches(labels, 4, torch_generator(0, "sampler"), drop_last=False)
    assert [image_b.tolist() for image_b in with_last] == [expected[:4], expected[4:8], expected[8:]]


@pytest.mark.parametrize(("n_labelled", "n_unlabelled"), [(4_000, 0), (0, 4_000)])
def test_all_or_none_labelled_draws_uniformly(n_labelled, n_unlabelled):
    drawn = torch.cat(balanced_batches(labels_with(n_labelled, n_unlabelled), 100, torch_generator(1)))
    assert len(drawn) == 4_000
    # Drawing n of n with replacement meets 1 - 1/e of them.
    assert len(drawn.unique()) / 4_000 == pytest.approx(1 - np.exp(-1), abs=0.03)


def test_fewer_images_than_a_batch_make_one_batch():
    assert [len(image_b) for image_b in balanced_batches(labels_with(2, 3), 128, torch_generator(0))] == [5]


def test_batches_repeat_with_the_generator_and_differ_between_epochs():
    labels = labels_with(20, 20)
    first, again, other = (
        torch.cat(balanced_batches(labels, 8, torch_generator(0, "sampler", epoch))) for epoch in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_impossible_batches_are_refused():
    with pytest.raises(ValueError, match="batch_size"):
        balanced_batches(labels_with(2, 2), 0, torch_generator(0))
    with pytest.raises(ValueError, match="no images"):
        balanced_batches(labels_with(0, 0), 4, torch_generator(0))


def test_the_first_view_is_the_centre():
    data = dataset()
    views = data[3]
    assert views.shape == (3, 3, 12, 12) and views.dtype == torch.uint8
    assert torch.equal(views[0], data.preprocessing.centre_view(Pictures(11).open(3)))
    assert not torch.equal(views[1], views[2])


def test_views_depend_on_seed_and_purpose_only():
    assert torch.equal(dataset()[5], dataset()[5])
    assert not torch.equal(dataset()[5], dataset(purpose="train/1")[5])
    assert not torch.equal(dataset()[5], dataset(seed=1)[5])


def test_no_random_views_leaves_the_centre():
    assert dataset(n_random=0)[0].shape == (1, 3, 12, 12)


def test_the_loader_keeps_the_order_and_the_last_partial_batch():
    data = dataset()
    order = torch.tensor([4, 2, 2, 9, 0])
    batches = list(view_loader(data, order, batch_size=2))
    assert [len(batch) for batch in batches] == [2, 2, 1]
    assert torch.equal(torch.cat(batches), torch.stack([data[i] for i in order.tolist()]))


def test_the_loader_takes_ready_batches():
    first, second = view_loader(dataset(), [torch.tensor([1, 2, 3]), torch.tensor([3, 2, 1])])
    assert torch.equal(first, second.flip(0))


def test_worker_processes_change_nothing():
    rows = torch.arange(8).split(2)
    alone = torch.stack(list(view_loader(dataset(), rows)))
    assert torch.equal(alone, torch.stack(list(view_loader(dataset(), rows, n_workers=2))))


@pytest.mark.slow
def test_worker_processes_may_be_spawned(rng, monkeypatch):
    # Images of the package, not of this file: a spawned process cannot import a test.
    images = ImageArrays(rng.integers(0, 256, (4, 20, 24, 3)).astype(np.uint8))
    views = ViewDataset(images, Preprocessing(image_size=12), seed=0, n_random=2, may_flip=True, purpose="views")
    monkeypatch.setattr("nngcd.views.loading.DataLoader", partial(DataLoader, multiprocessing_context="spawn"))
    loader = view_loader(views, torch.arange(4), batch_size=2, n_workers=1)
    assert torch.equal(torch.cat(list(loader)), torch.stack([views[i] for i in range(4)]))


def test_loading_leaves_the_global_random_state_alone():
    before = torch.random.get_rng_state()
    list(view_loader(dataset(), torch.arange(4)))
    assert torch.equal(before, torch.random.get_rng_state())
