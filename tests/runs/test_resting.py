"""Epochs in which the backbone's block rests: the same features, the same batches, and a block that stays as it is."""

from dataclasses import replace

import pytest
import torch
from lightning_fabric import Fabric
from torch import nn

from nngcd.backbones.backbone import Adapter, feature_backbone
from nngcd.core.progress import Progress
from nngcd.core.seeds import torch_generator
from nngcd.methods import mugcd, nngcd
from nngcd.methods.contract import Task
from nngcd.runs.views import rested_features, rested_views
from nngcd.training import loop
from nngcd.training.bank import MemoryBank
from nngcd.training.learner import Learner
from nngcd.training.sources import BankViews, RestingFirst

N = 24
LABELS = torch.where(torch.arange(N) % 4 < 2, torch.arange(N) % 2, -1).numpy()


def parts(tail=None, method=nngcd, **settings):
    """Return a backbone with a stage and an adapter, its bank, and a method that regularises the stage's weights."""
    generator = torch_generator(0, "parts")
    hidden = torch.randn(N, 3, 6, generator=generator)
    stage = nn.Linear(6, 4)
    for parameter in stage.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator)
    network = nn.Sequential(stage, Adapter(4)) if tail is None else tail(stage)
    backbone = replace(feature_backbone(6), split=lambda _: (nn.Identity(), network), n_features=4)
    task = Task(n_features=4, n_clusters=3, n_old=2, generator=generator, sparse_weights=tuple(backbone.sparse_weights))
    return backbone, MemoryBank(hidden), method.Method(method.Config(n_hidden=8, n_projection=4, **settings), task)


class Bars(Progress):
    """Notes each bar with its pieces."""

    def __init__(self):
        self.bars = []

    def start(self, stage, total):
        self.bars.append([stage, total, 0])

    def advance(self, n=1, note=""):
        self.bars[-1][2] += n


def trained(backbone, bank, method, *, resting, epochs=4, rate=0.1, progress=None):
    learner = Learner(backbone.tail, method, tail_learning_rate=rate, resting_epochs=resting)
    rested = rested_views(backbone, bank, N, Progress())
    sources = [BankViews(views, LABELS, "two-random", batch_size=8, seed=0) for views in (rested, bank)]
    source = RestingFirst(*sources, resting)
    assert source.n_batches == 3
    loop.train(
        learner, source, loop.TrainingSettings(epochs=epochs), overview=None,
        fabric=Fabric(accelerator="cpu", devices=1),
        run=None, progress=progress or Progress(),
    )  # fmt: skip
    return learner


def stage_of(learner):
    return [p.detach().clone() for p in learner.tail.network[0].parameters()]


def test_features_that_are_computed_once_are_those_of_the_tail():
    backbone, bank, _ = parts()
    rested = rested_views(backbone, bank, N, Progress())
    assert rested.hidden_nv.shape == (N, 3, 4)
    torch.testing.assert_close(rested.hidden_nv, backbone.tail(bank.hidden_nv))
    backbone.tail.network[1].weight.data.mul_(2)
    torch.testing.assert_close(rested_features(backbone, rested), 2 * rested.hidden_nv[:, 0])


def test_a_resting_stage_stays_as_it_is_although_its_weights_are_regularised():
    backbone, bank, method = parts(sparse_weight=0.1)
    before = [p.clone() for p in backbone.tail.network[0].parameters()]
    learner = trained(backbone, bank, method, resting=4)
    assert all(torch.equal(p, q) for p, q in zip(before, stage_of(learner), strict=True))
    assert not torch.equal(learner.tail.network[1].weight, torch.eye(4))  # the adapter learns


def test_it_learns_as_one_that_never_moves_and_then_moves():
    # A rate of 0 is another way to hold the stage; only the regulariser could tell them apart.
    resting, still = (trained(*parts(sparse_weight=0.0), resting=n, rate=0.0) for n in (4, 0))
    for name, tensor in still.state_dict().items():
        torch.testing.assert_close(resting.state_dict()[name], tensor, rtol=1e-4, atol=1e-5)
    first, awake = (trained(*parts(), resting=n) for n in (4, 3))
    assert not any(torch.equal(p, q) for p, q in zip(stage_of(first), stage_of(awake), strict=True))


@pytest.mark.parametrize(
    ("resting", "bars"),
    [
        (3, [["training heads", 3, 3], ["training block", 1, 1]]),
        (4, [["training heads", 4, 4]]),
        (0, [["training", 4, 4]]),
    ],
)
def test_epochs_of_rest_have_a_bar_of_their_own_because_they_are_so_much_shorter(resting, bars):
    seen = Bars()
    trained(*parts(), resting=resting, progress=seen)
    assert seen.bars == bars


@pytest.mark.parametrize("tail", [None, lambda stage: stage])
def test_a_tail_without_an_adapter_and_an_averaged_one_can_rest(tail):
    backbone, bank, method = parts(tail, method=mugcd)
    before = [p.clone() for p in backbone.tail.parameters()]
    learner = trained(backbone, bank, method, resting=4)
    is_same = [torch.equal(p, q) for p, q in zip(before, learner.tail.parameters(), strict=True)]
    assert is_same == ([True, True] if tail else [True, True, False, False])
    assert all(torch.isfinite(p).all() for p in learner.parameters())


def test_a_share_of_the_epochs_is_rounded_down_but_never_to_none():
    assert [loop.TrainingSettings(epochs=n, resting_share=0.89).resting_epochs for n in (1, 2, 34)] == [1, 1, 30]
    assert loop.TrainingSettings(epochs=100, resting_share=0.29).resting_epochs == 29
    assert loop.TrainingSettings(epochs=5).resting_epochs == 0
