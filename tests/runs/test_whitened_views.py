"""Whitened features: learnt from labels, kept in the model, and the same for images that come later."""

import dataclasses
from typing import ClassVar

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nngcd import training
from nngcd.backbones.backbone import feature_backbone
from nngcd.backbones.whitened import whitened
from nngcd.clustering.whitening import whitened_within_classes, whitening
from nngcd.core.errors import ConfigError
from nngcd.runs.preparing import prepare
from nngcd.runs.views import whitened_views
from nngcd.settings import resolve
from nngcd.training.bank import MemoryBank
from nngcd.training.learner import Learner
from nngcd.training.model import move


@pytest.fixture
def views():
    """Forty images of four classes in three views; within a class they differ along the first axis most."""
    generator = np.random.default_rng(0)
    centre = generator.normal(size=(4, 6)).repeat(10, 0)
    spread = generator.normal(size=(40, 1, 6)) * np.array([3.0, 0.2, 0.2, 0.2, 0.2, 0.2])
    x = centre[:, None] + spread + generator.normal(size=(40, 3, 6)) * 0.05
    return torch.from_numpy(x).float()


LABELS = np.repeat([0, 1, 2, -1], 10)


def test_the_map_is_that_of_the_estimate_of_k(views):
    mean, map_ = whitening(views[:, 0], LABELS, 128)
    own = F.normalize((F.normalize(views[:, 0].double()) - mean) @ map_)
    assert torch.allclose(own.float(), whitened_within_classes(views[:, 0], LABELS), atol=1e-5)


def test_what_images_of_a_class_differ_in_counts_for_less(views):
    mean, map_ = whitening(views[:, 0], LABELS, 6)
    x = (F.normalize(views[:, 0].double()) - mean) @ map_
    rest = (x - x.view(4, 10, -1).mean(1).repeat_interleave(10, 0))[:30]
    variance = torch.linalg.eigvalsh(rest.T @ rest / 30)
    raw = F.normalize(views[:, 0].double())
    raw = (raw - raw.view(4, 10, -1).mean(1).repeat_interleave(10, 0))[:30]
    before = torch.linalg.eigvalsh(raw.T @ raw / 30)
    assert variance[-1] / variance[1] < 0.1 * before[-1] / before[1]


def test_without_labels_only_the_main_directions_are_taken(views):
    _, map_ = whitening(views[:, 0], np.full(40, -1), 2)
    assert torch.allclose(map_.T @ map_, torch.eye(2, dtype=map_.dtype), atol=1e-9)
    assert map_.shape == (6, 2)


def test_views_and_later_images_go_the_same_way(views):
    backbone = feature_backbone(6)
    bank = MemoryBank(backbone.trunk(views))
    result, mapped = whitened_views(backbone, bank, bank.hidden_nv[:, 0], LABELS, 4)
    assert result.n_features == 4
    assert mapped.n_views == 3
    image, view = torch.tensor([3, 17]), torch.tensor([2, 1])
    assert torch.allclose(mapped.take(image, view), result.trunk(views[image, view]), atol=1e-5)
    assert torch.allclose(mapped.hidden_nv.norm(dim=-1), torch.full((40, 3), 20**0.5))
    # The adapter starts as the identity of the new features.
    assert torch.equal(result.tail(mapped.hidden_nv[0]), mapped.hidden_nv[0])


class CountingBank(MemoryBank):
    """Remembers how many images were asked for at a time."""

    asked: ClassVar[list[int]] = []

    def take(self, image_b, view_b):
        self.asked.append(len(image_b))
        return super().take(image_b, view_b)


def test_views_are_read_in_blocks_of_images(views, monkeypatch):
    backbone = feature_backbone(6)
    bank = CountingBank(backbone.trunk(views))
    _, whole = whitened_views(backbone, bank, bank.hidden_nv[:, 0], LABELS, 4)
    bank.asked.clear()
    monkeypatch.setattr(training.bank, "IMAGES_PER_BLOCK", 7)
    _, mapped = whitened_views(backbone, bank, bank.hidden_nv[:, 0], LABELS, 4)
    torch.testing.assert_close(mapped.hidden_nv, whole.hidden_nv)
    assert max(bank.asked) == 7


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_the_trunk_computes_in_what_it_computed_in(views, precision):
    backbone = move(feature_backbone(6), torch.device("cpu"), precision)
    result, _ = whitened_views(backbone, None, views[:, 0], LABELS, 4)
    assert result.trunk.precision == precision
    # Online views are whitened within the trunk: all digits count there, as for kept views.
    whole = move(result, torch.device("cpu"), "32-true").trunk(views[:, 0])
    torch.testing.assert_close(move(result, torch.device("cpu"), precision).trunk(views[:, 0]), whole)


def test_there_are_no_more_directions_than_images(views):
    backbone = feature_backbone(6)
    bank = MemoryBank(backbone.trunk(views[:4]))
    result, _ = whitened_views(backbone, bank, bank.hidden_nv[:, 0], np.array([0, 0, 1, 1]), 256)
    assert result.n_features == 4


def test_features_of_a_trained_tail_are_whitened_at_its_end(views):
    cut = dataclasses.replace(feature_backbone(6), split=lambda _: (nn.Identity(), nn.Linear(6, 6)))
    bank = MemoryBank(views)
    features = cut.tail(views[:, 0]).detach()
    result, mapped = whitened_views(cut, bank, features, LABELS, 4)
    assert result.tail_learning_rate == pytest.approx(0.03 * cut.tail_learning_rate)
    # The views are still what the trunk makes of them; the tail learns through the map.
    assert mapped is bank
    mean, map_ = whitening(features, LABELS, 4)
    expected = F.normalize((F.normalize(features.double()) - mean) @ map_) * 20**0.5
    found = result.tail(views[:, 0])
    torch.testing.assert_close(found.double(), expected, atol=1e-4, rtol=1e-4)
    found[:, 0].sum().backward()
    assert {name: p.grad.abs().sum() > 0 for name, p in result.tail.named_parameters()} == {
        f"network.{name}": True for name in ("0.network.weight", "0.network.bias", "1.weight", "1.bias")
    }


def test_an_adapter_behind_a_trained_tail_learns_as_fast_as_the_heads():
    cut = dataclasses.replace(feature_backbone(6), split=lambda _: (nn.Identity(), nn.Linear(6, 6)))
    method = torch.nn.Module()
    method.averages_tail, method.head, method.paced = False, nn.Linear(4, 2), lambda _: []
    _, *parts = Learner(whitened(cut, 4).tail, method, tail_learning_rate=0.1).parts()
    assert [part.is_tail for part in parts] == [True, False, False]
    shapes = [tuple(p.shape) for part in parts for p in part.parameters]
    assert shapes == [(6, 6), (6,), (4, 4), (4,), (2, 4), (2,)]
    assert [part.rate for part in parts] == [0.1, 1.0, 1.0]
    # Where it is all that is trained, the rate of the tail is its own.
    _, stage, adapter, _ = Learner(feature_backbone(6).tail, method, tail_learning_rate=0.5).parts()
    assert (len(stage.parameters), len(adapter.parameters), adapter.rate, adapter.is_tail) == (0, 2, 0.5, True)


def test_fewer_than_one_direction_are_refused():
    with pytest.raises(ConfigError, match="whitened_features = 0: must be at least 1"):
        resolve({"whitened_features": 0})


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"whitened_features": 8}, "whitened_features = 8"),
        ({"views": {"sizes": [1, 2]}}, r"views.sizes = \[1.0, 2.0\]"),
        ({"effort": "normal", "views": {"per_image": 2}, "training": {"resting_share": 0.5}}, "resting_share = 0.5"),
    ],
)
def test_a_method_inside_the_network_has_no_frozen_features_to_make_more_of(values, named, blob_split):
    with pytest.raises(ConfigError, match=f"{named}: sptnet trains inside the network"):
        prepare(blob_split, resolve({"method": "sptnet", "effort": "quick", "k": 4, **values}))
