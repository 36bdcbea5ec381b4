from __future__ import annotations

import numpy as np
import pytest
import torch
from golden_numbers import TOLERANCE, assert_agrees, classes, clusters, normal, rows

from nngcd.clustering.mean_shift import best_partition, shifts, ward_partition
from nngcd.core.seeds import torch_generator
from nngcd.losses.pairs import unit
from nngcd.methods import cms
from nngcd.methods.contract import Batch, Moment, Task
from nngcd.metrics.accuracy import split_accuracy
from nngcd.settings import resolve


@pytest.mark.parametrize("row", rows("cms", "whole_loss"))
def test_the_loss_of_a_step(row):
    small = {"n_hidden": 4, "n_projection": 4}
    settings = resolve({"method": "cms", "preset": "official", "dataset": row["dataset"], "loss": small})
    _, n_images, n_features = row["shape"]
    task = Task(n_features=n_features, n_clusters=5, n_old=3, generator=torch_generator(0, "x"))
    method = cms.Method(settings.loss, task)
    method.head = torch.nn.Identity()
    method.memory_nd = unit(normal(row["seed"] + 10, row["memory"], n_features).detach())
    z_vbd = normal(row["seed"], *row["shape"])
    labels_b = classes(row["seed"] + 20, n_images, 3, labelled=0.5)
    terms = method.loss(Batch(z_vbd, labels_b, Moment(0, 200, 0, 1), torch.arange(n_images)))
    assert terms["contrast"].item() == pytest.approx(0.65 * row["contrast"], rel=TOLERANCE)
    assert_agrees(row, sum(terms.values()), z_vbd)


@pytest.mark.parametrize("row", rows("cms", "mean_shift"))
def test_the_rounds_of_mean_shift(row):
    points, accuracies = clusters(row), []
    labels_n = points.labels_n.numpy()

    def partitions():
        for x_nd in shifts(points.unit_nd, n_neighbours=row["neighbours"], step=0.5):
            found = ward_partition(x_nd, labels_n, [row["k"]])
            accuracies.append(found.accuracy)
            yield found

    best = best_partition(partitions(), most=20)
    assert accuracies == pytest.approx(row["accuracies"], abs=1e-6)
    assert sorted(np.bincount(best.cluster_n).tolist()) == row["sizes"]
    class_n = points.class_n.numpy()
    assert split_accuracy(class_n, best.cluster_n, class_n < 0).all == pytest.approx(row["right"])
