from __future__ import annotations

import pytest
import torch

from nngcd.backbones.backbone import Adapter
from nngcd.core.errors import DataError
from nngcd.core.files import write_tensors
from nngcd.core.verified_files import read_tensors
from nngcd.methods.contract import BaseMethod
from nngcd.training.checkpoint import epochs_done, load_checkpoint, save_checkpoint
from nngcd.training.learner import Learner


class Remembering(BaseMethod):
    """Knows a group of every image, and a feature that is found anew in every epoch."""

    remembers = ("group_n",)

    def __init__(self, group=()):
        super().__init__(None, None)
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.register_buffer("group_n", torch.tensor(group, dtype=torch.int64), persistent=False)
        self.register_buffer("seen_nd", torch.ones(len(group), 2), persistent=False)


def learner_and_optimiser(method):
    learner = Learner(Adapter(3), method)
    return learner, torch.optim.SGD(learner.parameters(), 0.1, momentum=0.9)


@pytest.mark.parametrize("group", [[2, 0, 1, 1, 0], []])
def test_what_a_method_remembers_of_the_images_comes_back_however_many_they_are(group, tmp_path):
    learner, optimiser = learner_and_optimiser(Remembering(group))
    (learner.method.weight * learner.tail.weight).sum().backward()
    optimiser.step()
    save_checkpoint(tmp_path / "last.safetensors", learner, optimiser, 7)

    resumed, its_optimiser = learner_and_optimiser(Remembering())
    assert load_checkpoint(tmp_path / "last.safetensors", resumed, its_optimiser, 9) == 7
    assert resumed.method.group_n.tolist() == group
    assert resumed.method.group_n.dtype == torch.int64
    assert len(resumed.method.seen_nd) == 0, "only what is named is kept"
    assert torch.equal(resumed.method.weight, learner.method.weight)
    momentum = its_optimiser.state[resumed.method.weight]["momentum_buffer"]
    assert torch.equal(momentum, optimiser.state[learner.method.weight]["momentum_buffer"])
    # A buffer still: it moves with the method to another device, and stays out of a model's file.
    assert "group_n" in dict(resumed.method.named_buffers())
    assert "group_n" not in resumed.method.state_dict()


def test_without_a_checkpoint_nothing_is_done_and_nothing_changes(tmp_path):
    learner, optimiser = learner_and_optimiser(Remembering([1, 0]))
    assert load_checkpoint(tmp_path / "none.safetensors", learner, optimiser, 9) == 0
    assert learner.method.group_n.tolist() == [1, 0]


def test_momentum_comes_back_in_the_memory_layout_of_its_parameter(tmp_path):
    """Another layout is rounded differently: a resumed run would differ from an unbroken one in the last bit."""

    def with_convolution():
        tail = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
        learner = Learner(tail, Remembering())
        return learner, torch.optim.SGD(learner.parameters(), 0.1, momentum=0.9)

    learner, optimiser = with_convolution()
    learner.tail(torch.ones(1, 3, 5, 5)).sum().backward()
    optimiser.step()
    save_checkpoint(tmp_path / "last.safetensors", learner, optimiser, 1)
    resumed, its_optimiser = with_convolution()
    load_checkpoint(tmp_path / "last.safetensors", resumed, its_optimiser, 4)
    before = optimiser.state[learner.tail.weight]["momentum_buffer"]
    after = its_optimiser.state[resumed.tail.weight]["momentum_buffer"]
    assert torch.equal(before, after)
    assert after.stride() == resumed.tail.weight.stride() == before.stride()


def test_a_checkpoint_that_contradicts_its_run_is_refused(tmp_path):
    learner, optimiser = learner_and_optimiser(Remembering([1, 0]))
    path = tmp_path / "last.safetensors"
    save_checkpoint(path, learner, optimiser, 99)
    for read in (lambda: load_checkpoint(path, learner, optimiser, 4), lambda: epochs_done(path, 4)):
        with pytest.raises(DataError, match=r"R03: .*last\.safetensors is damaged \(epochs_done = '99' of 4 epochs\)"):
            read()
    tensors, _ = read_tensors(path)
    for strings in ({"epochs_done": "x"}, {"epochs_done": "-1"}, {"epochs_done": "1" * 5000}, {}):
        write_tensors(path, tensors, strings)
        with pytest.raises(DataError, match=r"last\.safetensors is damaged \(epochs_done"):
            load_checkpoint(path, learner, optimiser, 4)
    name = next(name for name in tensors if name.startswith("model."))
    for others in ({}, tensors | {name: torch.zeros(7, 7)}, tensors | {"momentum.method.weight": torch.zeros(7, 7)}):
        write_tensors(path, others, {"epochs_done": "3"})
        with pytest.raises(DataError, match=r"last\.safetensors is damaged \(it does not match this run"):
            load_checkpoint(path, learner, optimiser, 4)
