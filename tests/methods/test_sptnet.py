from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from nngcd.backbones.backbone import Backbone, frozen
from nngcd.backbones.pixel_prompts import prompt_of
from nngcd.core.errors import ConfigError
from nngcd.core.seeds import torch_generator
from nngcd.methods import simgcd, sptnet
from nngcd.methods.contract import Batch, Moment, Task
from nngcd.settings import resolve
from nngcd.training.learner import Learner
from nngcd.training.loop import TrainingSettings, _groups, _optimiser
from nngcd.views.preprocessing import Preprocessing

SMALL_HEAD = {"n_hidden": 12, "n_projection": 8}
LABELS = torch.tensor([0, 1, -1, -1, 0, -1, 1, -1])


def make(**more):
    task = Task(n_features=6, n_clusters=5, n_old=2, generator=torch_generator(0, "init"))
    return sptnet.Method(sptnet.Config(**SMALL_HEAD, **more), task)


def moment(step, *, n_epochs=4, n_batches=10):
    return Moment(step // n_batches, n_epochs, step, n_epochs * n_batches)


@pytest.fixture
def hidden_vb():
    """Two views of eight images, with the share of the prompt as the fourth channel."""
    pixels_vb = torch.randn(2, 8, 3, 8, 8, generator=torch_generator(1, "x"))
    return torch.cat([pixels_vb, torch.ones(2, 8, 1, 8, 8)], dim=2)


def learner_of(method, *, effort="quick"):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GELU(), nn.Conv2d(4, 6, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    backbone = Backbone(
        name="small", network=network, split=lambda network: (network[:2], network[2:]), n_features=6,
        preprocessing=Preprocessing(image_size=8), fingerprint="0",
    )  # fmt: skip
    backbone = frozen(backbone) if effort == "quick" else backbone
    return Learner(sptnet.Method.own_cut(backbone, method.config, torch_generator(0, "own cut")).tail, method)


def step(learner, hidden_vb, when, optimiser):
    """Take one step as the training loop does, and return the names of what moved."""
    before = {name: parameter.detach().clone() for name, parameter in learner.named_parameters()}
    optimiser.zero_grad()
    torch.stack(list(learner(hidden_vb, LABELS, torch.arange(8), 8, when).values())).sum().backward()
    learner.before_step(when)
    optimiser.step()
    learner.after_step(when)
    return {name for name, parameter in learner.named_parameters() if not torch.equal(parameter, before[name])}


def test_prompt_and_model_take_turns_after_simgcd():
    method = make(simgcd_share=0.5, phase_steps=5)
    phases = [method.phase(moment(i)) for i in range(40)]
    assert phases == ["simgcd"] * 20 + ["prompt"] * 5 + ["model"] * 5 + ["prompt"] * 5 + ["model"] * 5
    assert [method.stage(epoch, 4) for epoch in (0, 1, 2, 3)] == [range(2), range(2), range(2, 4), range(2, 4)]


def test_from_a_trained_network_all_epochs_but_one_batch_have_turns():
    method = make(phase_steps=20)
    assert [method.phase(moment(i)) for i in range(40)] == ["simgcd"] + ["prompt"] * 20 + ["model"] * 19
    assert method.stage(0, 4) == range(4)
    # However large the share, the last epoch has turns.
    assert make(simgcd_share=0.99).phase(moment(30)) == "prompt"


def test_turns_that_begin_anew_in_every_epoch():
    method = make(phase_steps=4, turns_per_epoch=True)
    epoch = ["prompt"] * 3 + ["model"] * 4 + ["prompt"] * 3
    assert [method.phase(moment(i)) for i in range(40)] == epoch * 4
    later = make(phase_steps=4, turns_per_epoch=True, simgcd_share=0.5)
    assert [later.phase(moment(i)) for i in range(40)] == ["simgcd"] * 20 + epoch * 2


def test_the_prompt_is_on_at_once_only_where_the_first_batch_is_its_own():
    for more, expected in (({}, False), ({"turns_per_epoch": True}, True),
                           ({"turns_per_epoch": True, "simgcd_share": 0.5}, False)):  # fmt: skip
        assert bool(prompt_of(learner_of(make(**more)).tail).is_on) == expected


def test_the_prompt_may_have_a_schedule_of_its_own(hidden_vb):
    method = make(prompt_warmup_steps=4, turns_per_epoch=True)
    rates = [method.pace(moment(i)) for i in (0, 3, 4, 22, 39)]
    assert rates == pytest.approx([0.25, 1.0, 1.0, 0.5, 0.5 * (1 + math.cos(math.pi * 35 / 36))])
    # Its steps count from the first turn.
    assert make(prompt_warmup_steps=4, simgcd_share=0.5).pace(moment(21)) == 0.5
    learner = learner_of(method)
    paced, *others = _groups(learner, TrainingSettings())
    assert [p is prompt_of(learner.tail).values for p in paced.parameters] == [True]
    assert (paced.is_paced, paced.weight_decay, any(group.is_paced for group in others)) == (True, 0.0, False)
    assert not make().paced(learner.tail)


def test_prototypes_that_are_trained_already_are_not_placed_anew():
    shares = 0.0, 0.5
    methods = [make(simgcd_share=share, prototype_start="matched") for share in shares]
    assert [[epoch for epoch in range(4) if method.looks_before(epoch, 4)] for method in methods] == [[], [0]]


def test_two_prompted_views_then_one_crop_without_and_with_the_prompt(hidden_vb):
    method = make(simgcd_share=0.5, phase_steps=5)
    assert torch.equal(method.arrange(hidden_vb, moment(20)), hidden_vb)
    model_vb = method.arrange(hidden_vb, moment(25))
    assert torch.equal(model_vb[0, :, :3], hidden_vb[0, :, :3])
    assert torch.equal(model_vb[1, :, :3], hidden_vb[0, :, :3])
    assert [set(view_b[:, 3].unique().tolist()) for view_b in model_vb] == [{0.0}, {1.0}]
    simgcd_vb = method.arrange(hidden_vb, moment(0))
    assert torch.equal(simgcd_vb[:, :, :3], hidden_vb[:, :, :3])
    assert not simgcd_vb[:, :, 3].any()
    assert (hidden_vb[:, :, 3] == 1).all()


@pytest.mark.parametrize("effort", ["quick", "normal"])
def test_what_learns_in_each_phase(hidden_vb, effort):
    learner = learner_of(make(simgcd_share=0.5, phase_steps=2), effort=effort)
    config = TrainingSettings(weight_decay=0.01, learning_rate=0.1)
    optimiser = _optimiser(_groups(learner, config), config)
    prompt = {"tail.network.prompt.values"}
    tail = {name for name, _ in learner.named_parameters() if name.startswith("tail.network.tail")}
    model = tail | {name for name, _ in learner.named_parameters() if name.startswith("method.")}
    assert len(tail) == 2
    for i, expected in [(18, model), (19, model), (20, prompt), (21, prompt), (22, model), (23, model), (24, prompt)]:
        assert step(learner, hidden_vb, moment(i), optimiser) == expected, i


def test_the_prompt_is_switched_on_when_its_first_phase_comes(hidden_vb):
    learner = learner_of(make(simgcd_share=0.5))
    prompt = prompt_of(learner.tail)
    optimiser = torch.optim.SGD(learner.parameters(), 0.0)
    found = []
    for i in (0, 18, 19, 20, 39):
        step(learner, hidden_vb, moment(i), optimiser)
        found.append(bool(prompt.is_on))
    assert found == [False, False, True, True, True]
    # A checkpoint knows of it.
    other = learner_of(make(simgcd_share=0.5))
    other.load_state_dict(learner.state_dict())
    assert bool(prompt_of(other.tail).is_on)


def test_a_resting_prompt_costs_no_pass_back_and_changes_no_gradient(hidden_vb):
    """After a resume its gradient is computed once without need: the other gradients must be the same to the bit."""
    gradients = []
    for is_resumed in (True, False):
        learner = learner_of(make(simgcd_share=0.5, phase_steps=5), effort="normal")
        prompt_of(learner.tail).is_on.fill_(1.0)
        if not is_resumed:
            learner.before_step(moment(24))
        torch.stack(list(learner(hidden_vb, LABELS, torch.arange(8), 8, moment(25)).values())).sum().backward()
        assert (prompt_of(learner.tail).values.grad is not None) == is_resumed
        learner.before_step(moment(25))
        gradients.append([p.grad for p in learner.parameters()])
    assert gradients[0][0] is None
    for first, second in zip(*gradients, strict=True):
        assert first is second is None or torch.equal(first, second)


def test_each_turn_has_the_loss_of_simgcd():
    method = make()
    plain = simgcd.Method(simgcd.Config(**SMALL_HEAD, teacher_warmup_epochs=10), make().task)
    plain.load_state_dict(method.state_dict())
    features_vbd = torch.randn(2, 8, 6, generator=torch_generator(2, "x"))
    batch = Batch(features_vbd, LABELS, moment(25), torch.arange(8))
    assert method.loss(batch) == plain.loss(batch)


@pytest.mark.parametrize(
    ("dataset", "prompt_rate"),
    [("cub", 25), ("stanford_cars", 10), ("fgvc_aircraft", 1), ("cifar10", 1), ("cifar100", 5), ("imagenet100", 5),
     ("herbarium19", 0.5)],
)  # fmt: skip
def test_the_published_rates_of_the_prompt(dataset, prompt_rate):
    found = resolve({"method": "sptnet", "preset": "official", "dataset": dataset, "effort": "full"})
    assert found.loss.prompt_learning_rate * found.training.learning_rate == pytest.approx(prompt_rate, rel=1e-3)
    assert (found.loss.border_width == 0) == dataset.startswith("cifar")


def test_effort_quick_needs_no_download_and_the_others_have_the_paper_s_backbone():
    quick, full = (resolve({"method": "sptnet", "effort": effort}) for effort in ("quick", "full"))
    assert (quick.backbone, quick.weights, quick.views.per_image) == ("efficientnet_lite0", None, "online")
    assert (full.backbone, full.weights) == ("dino", None)


@pytest.mark.parametrize(
    ("name", "value"),
    [("simgcd_share", 1.0), ("phase_steps", 0), ("border_width", -1), ("prompt_learning_rate", 0.0),
     ("prompt_deviation", -1.0), ("prompt_warmup_steps", -1), ("entropy_weight", -1.0)],
)  # fmt: skip
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        sptnet.Config(**{name: value})
