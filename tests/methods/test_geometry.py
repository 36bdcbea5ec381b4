from __future__ import annotations

import dataclasses
from functools import partial

import pytest
import torch

from nngcd.core.components import find_component
from nngcd.core.config import build
from nngcd.core.errors import ConfigError
from nngcd.core.seeds import torch_generator
from nngcd.datasets.arrays import from_arrays
from nngcd.losses.info_nce import info_nce
from nngcd.losses.nmf_nce import nmf_nce
from nngcd.losses.pairs import cosines
from nngcd.losses.poincare import in_ball
from nngcd.methods.contract import Batch, Moment, Overview, Task
from nngcd.methods.geometry import BallPrototypes, Geometry, GeometryConfig, in_cosines, prototypes_in
from nngcd.metrics.accuracy import split_accuracy
from nngcd.pipeline import fit
from nngcd.settings import resolve
from nngcd.training.model import Model

BALL = {"geometry": "poincare"}
SMALL = {"n_hidden": 32, "n_projection": 16, "n_directions": 0, "n_experts": 2, "n_neighbours": 3}


def method_in_the_ball(name, **loss):
    module = find_component("nngcd.methods", name, "Method")
    names = {field.name for field in dataclasses.fields(module.Config)}
    values = {key: value for key, value in SMALL.items() if key in names}
    task = Task(n_features=8, n_clusters=5, n_old=3, generator=torch_generator(0, "init"))
    return module.Method(build(module.Config, values | BALL | loss), task)


def layer(n_clusters=5, *, most=None, **settings):
    return BallPrototypes(
        GeometryConfig(**BALL | settings), 8, n_clusters, generator=torch_generator(0, "init"), most=most
    )  # fmt: skip


def at(epoch):
    return Moment(epoch, 200, 10 * epoch, 2000)


@pytest.mark.parametrize(("epoch", "share"), [(0, 0.005), (99, 0.5), (199, 1.0)])
def test_angles_give_way_to_distances(epoch, share):
    def loss(*, temperature, similarity):
        return torch.tensor(temperature if similarity is cosines else 0.0)

    contrast = Geometry(GeometryConfig(**BALL, angle_scale=0.5)).at(at(epoch))
    assert contrast(loss, 0.2).item() == pytest.approx((1 - share) * 0.1)


def test_cosines_are_the_methods_own_loss_and_stay_so_in_the_ball_without_distances(rng):
    z_vbd = torch.from_numpy(rng.normal(size=(2, 6, 4)))
    assert Geometry(GeometryConfig()).at(at(3)) is in_cosines
    for loss in (info_nce, nmf_nce):
        own = loss(z_vbd, temperature=0.3)
        ball = Geometry(GeometryConfig(**BALL, distance_share=0.0)).at(at(3))
        assert torch.equal(in_cosines(partial(loss, z_vbd), 0.3), own)
        assert torch.allclose(ball(partial(loss, z_vbd), 0.3), own)


@pytest.mark.parametrize("c", [0.1, 1.0])
def test_a_layer_without_weights_gives_the_point_of_its_bias(c):
    prototypes = layer(curvature=c)
    prototypes.weight.data.zero_()
    point = in_ball(prototypes.bias, torch.tensor(c))
    assert torch.allclose(prototypes(torch.randn(3, 8)), point.expand(3, 5), atol=1e-6)


def test_a_layer_is_the_product_of_a_matrix_and_a_point_of_the_ball(rng):
    prototypes, c = layer().double(), 0.1
    prototypes.bias.data.zero_()
    u = torch.from_numpy(rng.uniform(-0.5, 0.5, size=(4, 8)))
    x = in_ball(u, torch.tensor(c, dtype=torch.float64))
    y = x @ prototypes.weight.T
    along = y.norm(dim=-1, keepdim=True) / x.norm(dim=-1, keepdim=True)
    product = torch.tanh(along * torch.atanh(c**0.5 * x.norm(dim=-1, keepdim=True))) * y
    assert torch.allclose(prototypes(u), product / (c**0.5 * y.norm(dim=-1, keepdim=True)), rtol=1e-6)


def test_without_curvature_a_layer_is_linear(rng):
    prototypes = layer(curvature=1e-7, clip_radius=100.0)
    x = torch.from_numpy(rng.normal(size=(4, 8))).float()
    assert torch.allclose(prototypes(x), x @ prototypes.weight.T + prototypes.bias, atol=1e-4)


@pytest.mark.parametrize("name", ["gcd", "xcon", "mugcd", "simgcd", "nngcd", "selex", "debgcd", "legogcd", "protogcd"])
@pytest.mark.parametrize("length", [1e-6, 1.0, 1e6])
def test_every_method_survives_features_of_any_length(name, length):
    method = method_in_the_ball(name, learn_curvature=True)
    generator, labels_b = torch_generator(1, "x"), torch.tensor([0, 0, 1, 2, -1, -1, -1, -1])
    features = (length * torch.randn(2, 8, 8, generator=generator)).requires_grad_()
    for epoch in (0, 7):
        if method.looks_before(epoch, 8):
            method.look(Overview(features[0].detach(), labels_b, epoch, seed=0))
        batch = Batch(features, labels_b, Moment(epoch, 8, 10 * epoch, 80), torch.arange(8), features.detach())
        loss = torch.stack(list(method.loss(batch).values())).sum()
        loss.backward()
        assert torch.isfinite(loss)
        assert torch.isfinite(features.grad).all()
        assert all(p.grad is None or torch.isfinite(p.grad).all() for p in method.parameters())


def test_a_learned_curvature_learns_and_stays_within_bounds():
    geometry = Geometry(GeometryConfig(**BALL, learn_curvature=True))
    z_vbd = torch.randn(2, 6, 4, generator=torch_generator(0, "z"))
    geometry.at(at(199))(partial(info_nce, z_vbd), 1.0).backward()
    assert geometry.curvature.log.grad.abs() > 0
    geometry.curvature.log.data.fill_(1000.0)
    assert geometry.curvature().item() == pytest.approx(10.0)
    assert not list(Geometry(GeometryConfig(**BALL)).parameters())


def test_a_teacher_follows_bias_and_curvature_as_well():
    teacher, student = layer(learn_curvature=True), layer(learn_curvature=True)
    for parameter in student.parameters():
        parameter.data += 1.0
    before = [parameter.clone() for parameter in teacher.parameters()]
    teacher.follow(student, 0.25)
    for old, new in zip(before, teacher.parameters(), strict=True):
        assert torch.allclose(new, old + 0.25)


def test_biases_belong_to_their_prototypes():
    prototypes = layer(3, most=5)
    assert (prototypes.bias[3:] == 0).all()
    prototypes.turn(torch.eye(8)[:1], torch.tensor([1]))
    assert (prototypes.bias[:3] == 0).tolist() == [False, True, False]
    prototypes.resize(5)
    assert prototypes(torch.ones(2, 8)).shape == (2, 5)
    prototypes.resize(2)
    prototypes.trim()
    assert prototypes.bias.shape == (2,)
    prototypes.turn(torch.eye(8)[:2])
    assert prototypes(torch.eye(8)[:2]).argmax(-1).tolist() == [0, 1]


def test_a_classifier_in_cosines_is_the_one_it_was():
    drawn = {"generator": torch_generator(0, "init")}
    assert type(prototypes_in(GeometryConfig())(8, 3, **drawn)).__name__ == "Prototypes"


@pytest.mark.parametrize("name", ["promptcal", "infosieve"])
def test_methods_that_know_only_cosines_refuse_the_ball(name):
    with pytest.raises(ConfigError, match=r"^loss.geometry = 'poincare': .*; leave it out"):
        resolve({"method": name, "loss": BALL})


def test_blobs_are_sorted_in_the_ball_and_a_saved_model_gives_the_same_scores(blobs, tmp_path):
    features, labels, classes = blobs
    loss = {**BALL, "learn_curvature": True, "n_hidden": 128, "n_projection": 32}
    values = {"method": "nngcd", "k": 6, "loss": loss, "training": {"epochs": 8, "batch_size": 48}}
    fitted = fit(from_arrays(features, labels), resolve(values))
    assert split_accuracy(classes, fitted.scores_nk.argmax(-1).numpy(), classes < 3).all > 0.9
    fitted.model.save(tmp_path / "model", fitted.categories)
    assert torch.equal(Model.load(tmp_path / "model")[0].scores(fitted.features_nd), fitted.scores_nk)
