from __future__ import annotations

import numpy as np
import pytest
import torch
from golden_numbers import TOLERANCE, assert_agrees, classes, normal, rows

from nngcd.core.seeds import torch_generator
from nngcd.losses.pairs import distances, unit
from nngcd.losses.self_expertise import radii
from nngcd.methods import selex
from nngcd.methods.contract import Batch, Moment, Task
from nngcd.settings import resolve


@pytest.mark.parametrize("row", rows("selex", "whole_loss"))
def test_the_loss_of_a_step(row):
    small = {"n_hidden": 4, "n_projection": 4, "n_directions": 0}
    settings = resolve({"method": "selex", "preset": "official", "dataset": row["dataset"], "loss": small})
    _, n_images, n_features = row["shape"]
    task = Task(n_features=n_features, n_clusters=9, n_old=row["old"], generator=torch_generator(0, "x"))
    method = selex.Method(settings.loss, task)
    method.head = torch.nn.Identity()
    sizes = [sum(pair) for pair in selex.level_sizes(row["old"], row["new"])]
    labels = [np.random.RandomState(row["seed"] + 30 + i).randint(k, size=n_images) for i, k in enumerate(sizes)]
    method.pseudo_label_ln = torch.from_numpy(np.stack(labels))
    centres = [unit(normal(row["seed"] + 40 + i, k, n_features).detach()) for i, k in enumerate(sizes)]
    method.radius_ln = torch.stack([radii(c)[label] for c, label in zip(centres, labels, strict=True)])
    x_vbd = (row["scale"] * normal(row["seed"], *row["shape"]).detach()).requires_grad_()
    is_far = (distances(x_vbd)[..., None, :, :] > 2 * method.radius_ln[:, None]).any(-3)
    assert is_far.double().mean().item() == pytest.approx(row["far"])
    labels_b = classes(row["seed"] + 20, n_images, row["old"], labelled=0.5)
    terms = method.loss(Batch(x_vbd, labels_b, Moment(0, 200, 0, 1), torch.arange(n_images)))
    assert terms["contrast"].item() == pytest.approx(0.65 * row["contrast"], rel=TOLERANCE)
    assert_agrees(row, sum(terms.values()), x_vbd)
