from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from golden_numbers import assert_agrees, classes, normal, rows

from nngcd.clustering import snc
from nngcd.methods import cipr
from nngcd.methods.contract import Batch, Moment, Task
from nngcd.settings import resolve

OFFICIAL = resolve({"method": "cipr", "preset": "official", "effort": "full"}).loss


def terms(z_vbd, *, labels_b=None, group_b=None, **changes):
    """Return the terms of preset official, of projections instead of features."""
    n = z_vbd.shape[1]
    task = Task(n_features=z_vbd.shape[2], n_clusters=n, n_old=1, generator=torch.Generator())
    method = cipr.Method(replace(OFFICIAL, n_hidden=1, n_projection=1, n_directions=0, **changes), task)
    method.head = torch.nn.Identity()
    method.group_n = torch.arange(n) if group_b is None else group_b
    labels_b = torch.full((n,), -1) if labels_b is None else labels_b
    return method.loss(Batch(z_vbd, labels_b, Moment(0, 1, 0, 1), torch.arange(n)))


@pytest.mark.parametrize("row", rows("cipr", "cross"))
def test_cross(row):
    z_vbd = normal(row["seed"], *row["shape"])
    group_b = classes(row["group_seed"], row["shape"][1], row["n_groups"])
    assert_agrees(row, terms(z_vbd, group_b=group_b)["cross"], z_vbd)


@pytest.mark.parametrize("row", rows("cipr", "labelled"))
def test_labelled(row):
    z_vbd = normal(row["seed"], *row["shape"])
    labels_b = classes(row["label_seed"], row["shape"][1], row["n_classes"], labelled=row["labelled"])
    assert_agrees(row, terms(z_vbd, labels_b=labels_b)["supcon"], z_vbd)


@pytest.mark.parametrize("row", rows("cipr", "warmup"))
def test_warmup(row):
    z_vbd = normal(row["seed"], *row["shape"])
    assert_agrees(row, terms(z_vbd, warmup_epochs=10)["cross"], z_vbd)


def draw(row):
    """Return overlapping classes, some of the old ones' images labelled."""
    random, (n, d) = np.random.RandomState(row["seed"]), row["shape"]
    truth_n = random.randint(row["n_classes"], size=n)
    centre_kd = random.standard_normal((row["n_classes"], d))
    x_nd = (centre_kd[truth_n] + row["spread"] * random.standard_normal((n, d))).astype(np.float32)
    is_labelled_n = (truth_n < row["n_old"]) & (random.uniform(size=n) < row["labelled"])
    return x_nd, np.where(is_labelled_n, truth_n, -1)


def name(cluster_n):
    """Return what names a partition, whatever its clusters are called."""
    number = {}
    ids = [number.setdefault(cluster, len(number)) for cluster in cluster_n.tolist()]
    return hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()[:16]


@pytest.mark.parametrize("row", rows("cipr", "snc"))
def test_snc(row):
    x_nd, label_n = draw(row)
    levels = snc.partitions(x_nd, label_n, rule=OFFICIAL.grouping)
    assert [level_n.max() + 1 for level_n in levels] == row["n_clusters"]
    assert [name(level_n) for level_n in levels] == row["partitions"]
    assert name(snc.cluster(x_nd, label_n, row["k"], rule=OFFICIAL.grouping)) == row["at_k"]
