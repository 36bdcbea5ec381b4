from __future__ import annotations

import numpy as np
import pytest
import torch

from nngcd.backbones import load_backbone
from nngcd.backbones.backbone import frozen
from nngcd.core.progress import Progress
from nngcd.datasets.arrays import from_arrays
from nngcd.training.extraction import cached_hidden, centre_features, run_tail


@pytest.fixture(scope="module")
def backbone():
    return frozen(load_backbone("resnet18", pretrained=False, image_size=32))


@pytest.fixture
def pictures(rng):
    return from_arrays(rng.integers(0, 255, size=(20, 40, 40, 3)).astype(np.uint8), [0, 1] * 5 + [-1] * 10)


class CountImages(Progress):
    def __init__(self):
        self.n_images = 0

    def advance(self, n=1, note=""):
        self.n_images += n


def hidden_of(backbone, split, cache, n_random=2):
    progress = CountImages()
    hidden = cached_hidden(backbone, split, n_random=n_random, n_workers=0, cache=cache, progress=progress)
    return hidden, progress.n_images


def test_the_second_run_reads_what_the_first_one_kept(backbone, pictures, tmp_path):
    first, n_computed = hidden_of(backbone, pictures, tmp_path)
    again, n_computed_again = hidden_of(backbone, pictures, tmp_path)
    assert (n_computed, n_computed_again) == (20, 0)
    assert first.shape == (20, 3, 512)
    assert torch.equal(first, again)
    assert torch.equal(first, hidden_of(backbone, pictures, None)[0])


def test_other_images_views_or_weights_are_not_mixed_up(backbone, pictures, tmp_path, rng):
    hidden_of(backbone, pictures, tmp_path)
    assert hidden_of(backbone, pictures, tmp_path, n_random=1)[1] == 20
    others = from_arrays(rng.integers(0, 255, size=(20, 40, 40, 3)).astype(np.uint8))
    assert hidden_of(backbone, others, tmp_path)[1] == 20
    other_weights = frozen(load_backbone("resnet18", pretrained=False, image_size=32))
    assert hidden_of(other_weights, pictures, tmp_path)[1] == 20
    other_size = frozen(load_backbone("resnet18", pretrained=False, image_size=24))
    assert hidden_of(other_size, pictures, tmp_path)[1] == 20


def test_a_damaged_cache_is_computed_again(backbone, pictures, tmp_path):
    first, _ = hidden_of(backbone, pictures, tmp_path)
    (kept,) = tmp_path.glob("features-*.safetensors")
    kept.write_bytes(kept.read_bytes()[:100])
    again, n_computed = hidden_of(backbone, pictures, tmp_path)
    assert n_computed == 20
    assert torch.equal(first, again)


def test_features_of_the_quick_effort_have_the_length_of_their_scale(backbone, pictures):
    hidden, _ = hidden_of(backbone, pictures, None)
    assert torch.allclose(hidden.float().norm(dim=-1), torch.tensor(20.0).sqrt(), atol=0.01)


def test_centre_features_are_those_of_the_cached_centre_view(backbone, pictures):
    hidden, _ = hidden_of(backbone, pictures, None)
    streamed = torch.cat(list(centre_features(backbone, pictures.images, n_workers=0, progress=Progress())))
    assert torch.allclose(streamed, run_tail(backbone, hidden[:, 0]), atol=2e-3)
