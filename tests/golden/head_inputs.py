"""Features, labels and weights for the loss of a whole step, all drawn from a row's seed."""

from __future__ import annotations

from typing import Any

import torch
from golden_numbers import classes, normal
from torch import Tensor

from nngcd.core.components import find_component
from nngcd.methods.contract import BaseMethod, Batch, Moment, Task
from nngcd.settings import resolve

N_FEATURES, N_HIDDEN, N_PROJECTION, N_CLUSTERS, N_OLD, N_IMAGES = 12, 16, 8, 7, 4, 10
TAIL = [(12,), (36, 12), (12, 12), (12,), (24, 12), (12, 24)]
"""Shapes of the weights of a last block; those with one axis are gains."""
WEIGHT_SCALE = 0.3


def step(name: str, row: dict[str, Any]) -> tuple[BaseMethod, Batch, list[Tensor]]:
    """Return a method with its official settings, a batch, and what the gradients of a row belong to.

    Those are the features, the matrices of the projection, the prototypes and, for NN-GCD, the tail. With seed s, the
    features are the numbers of seed s; the weights and biases of the head and its prototypes, in their order, those of
    s + 10, s + 11, ... times 0.3; the teacher's those of s + 20, ...; the tail's weights those of s + 30, ...
    """
    seed, head = row["seed"], {"n_hidden": N_HIDDEN, "n_projection": N_PROJECTION}
    settings = {"method": name, "preset": "official", "effort": "full", "data": row["dataset"], "loss": head}
    tail = [normal(seed + 30 + i, *shape) for i, shape in enumerate(TAIL)] if name == "nngcd" else []
    task = Task(
        n_features=N_FEATURES, n_clusters=N_CLUSTERS, n_old=N_OLD, generator=torch.Generator(), sparse_weights=(*tail,)
    )  # fmt: skip
    method = find_component("nngcd.methods", name, "Method").Method(resolve(settings).loss, task).double()
    projection = list(method.projection.parameters())
    for i, parameter in enumerate([*projection, method.prototypes.weight]):
        parameter.data = WEIGHT_SCALE * normal(seed + 10 + i, *parameter.shape).detach()
    if name == "nngcd":
        teacher = method.teacher.weight
        teacher.data = WEIGHT_SCALE * normal(seed + 20 + len(projection), *teacher.shape).detach()
    features_vbd = normal(seed, 2, N_IMAGES, N_FEATURES)
    labels_b = classes(row["label_seed"], N_IMAGES, N_OLD, labelled=0.6)
    moment = Moment(epoch=row["epoch"], n_epochs=200, step=0, n_steps=1)
    batch = Batch(features_vbd, labels_b, moment, torch.arange(N_IMAGES))
    matrices = [parameter for parameter in projection if parameter.ndim == 2]
    return method, batch, [features_vbd, *matrices, method.prototypes.weight, *tail]
