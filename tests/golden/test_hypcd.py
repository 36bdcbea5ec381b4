from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from golden_numbers import assert_agrees, classes, fill, normal, rows

from nngcd.core.seeds import torch_generator
from nngcd.losses.info_nce import info_nce
from nngcd.losses.supcon import supcon
from nngcd.methods import selex
from nngcd.methods.contract import Batch, Moment, Task
from nngcd.methods.geometry import BallPrototypes, Geometry, GeometryConfig
from nngcd.methods.simgcd import Method
from nngcd.settings import resolve

N_IMAGES, N_FEATURES, N_CLUSTERS, N_OLD = 10, 12, 7, 4
LABELS = torch.tensor([0, 0, 1, 1, 2, 2, -1, -1, -1, -1])


def in_the_ball(row, *names):
    return GeometryConfig(geometry="poincare", **{name: row[name] for name in names})


@pytest.mark.parametrize("row", rows("hypcd", "contrast"))
def test_the_contrast_of_an_epoch(row):
    config = in_the_ball(row, "curvature", "clip_radius", "angle_scale", "distance_share")
    x_vbd = normal(row["seed"], 2, N_IMAGES, N_FEATURES)
    z_vbd, contrast = row["scale"] * x_vbd, Geometry(config).double().at(Moment(row["epoch"], 200, 0, 1))
    value = 0.65 * contrast(partial(info_nce, z_vbd), 1.0) + 0.35 * contrast(partial(supcon, z_vbd, LABELS), 0.07)
    assert_agrees(row, value, x_vbd)


@pytest.mark.parametrize("row", rows("hypcd", "classifier"))
def test_the_hyperbolic_linear_layer(row):
    config = GeometryConfig(
        geometry="poincare", curvature=row["curvature"], clip_radius=row["clip_radius"], bias_curvature="one"
    )  # fmt: skip
    layer = fill(BallPrototypes(config, N_FEATURES, N_CLUSTERS, generator=torch.Generator()), row["seed"] + 10)
    x_vbd, weight = normal(row["seed"], 2, N_IMAGES, N_FEATURES), normal(row["seed"] + 20, 2 * N_IMAGES, N_CLUSTERS)
    value = (layer((row["scale"] * x_vbd).flatten(0, 1)) * weight.detach()).sum()
    assert_agrees(row, value, x_vbd, layer.weight, layer.bias)


@pytest.mark.parametrize("row", rows("hypcd", "whole_loss"))
def test_the_loss_of_a_step_of_hyp_simgcd(row):
    loss = {"geometry": "poincare", "n_projection": 0, "entropy_weight": 1.0}
    settings = resolve(
        {"method": "simgcd", "preset": "official", "effort": "full", "data": row["dataset"], "loss": loss}
    )
    task = Task(n_features=N_FEATURES, n_clusters=N_CLUSTERS, n_old=N_OLD, generator=torch.Generator())
    method = fill(Method(settings.loss, task), row["seed"] + 10)
    x_vbd, labels_b = normal(row["seed"], 2, N_IMAGES, N_FEATURES), LABELS.where(LABELS != 2, 3)
    batch = Batch(x_vbd, labels_b, Moment(row["epoch"], 200, 0, 1), torch.arange(N_IMAGES))
    assert_agrees(row, sum(method.loss(batch).values()), x_vbd, method.prototypes.weight, method.prototypes.bias)


@pytest.mark.parametrize("row", rows("hypcd", "selex"))
def test_the_loss_of_a_step_of_hyp_selex(row, monkeypatch):
    names = ("curvature", "clip_radius", "distance_share", "smoothing")
    config = selex.Config(geometry="poincare", n_directions=0, **{name: row[name] for name in names})
    n_views, n_images, n_features = row["shape"]
    task = Task(n_features=n_features, n_clusters=8, n_old=row["old"], generator=torch_generator(0, "init"))
    method = selex.Method(config, task).double()
    method.head = torch.nn.Identity()
    spread_aa = np.random.RandomState(row["seed"] + 50).uniform(size=(n_views * n_images,) * 2)
    spread_vbwc = torch.from_numpy(spread_aa / spread_aa.sum(1, keepdims=True)).view((n_views, n_images) * 2)
    monkeypatch.setattr(selex, "farther_than_own_cluster", lambda *seen, **how: spread_vbwc)
    labels = [
        np.random.RandomState(row["seed"] + 30 + i).randint(k, size=n_images) for i, k in enumerate(row["levels"])
    ]
    method.pseudo_label_ln = torch.from_numpy(np.stack(labels))
    method.radius_ln = torch.zeros(len(labels), n_images)
    x_vbd = normal(row["seed"], *row["shape"])
    labels_b = classes(row["seed"] + 20, n_images, row["old"], labelled=0.5)
    batch = Batch(row["scale"] * x_vbd, labels_b, Moment(row["epoch"], 200, 0, 1), torch.arange(n_images))
    assert_agrees(row, sum(method.loss(batch).values()), x_vbd)
