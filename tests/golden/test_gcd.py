from __future__ import annotations

import pytest
import torch
from golden_numbers import TOLERANCE, assert_agrees, classes, clustering, clusters, normal, rows

from nngcd.clustering.points import ONE_PROCESS, prepare
from nngcd.clustering.semi_supervised_kmeans import SemiSupervisedKMeans, class_means
from nngcd.losses.info_nce import info_nce
from nngcd.losses.supcon import supcon
from nngcd.metrics.accuracy import split_accuracy


@pytest.mark.parametrize("row", rows("gcd", "info_nce"))
def test_info_nce(row):
    z_vbd = normal(row["seed"], *row["shape"])
    assert_agrees(row, info_nce(z_vbd, temperature=row["temperature"]), z_vbd)


@pytest.mark.parametrize("row", rows("gcd", "supcon"))
def test_supcon(row):
    z_vbd = normal(row["seed"], *row["shape"])
    labels_b = classes(row["label_seed"], row["shape"][1], row["n_classes"], labelled=row["labelled"])
    assert_agrees(row, supcon(z_vbd, labels_b, temperature=row["temperature"]), z_vbd)


@pytest.mark.parametrize("row", rows("gcd", "semi_supervised_k_means"))
def test_semi_supervised_k_means(row):
    unit_nd, _, labels_n, start_kd = clusters(row)
    points = prepare(unit_nd, labels_n, 4096, ONE_PROCESS)
    mean_cd = class_means(points) + points.mean_d
    start = torch.cat([mean_cd, start_kd[row["old"] :]])
    k_means = SemiSupervisedKMeans(row["classes"], init=start, max_iter=row["moves"]).fit(unit_nd, labels_n)
    centres_kd = k_means.cluster_centers_
    found = [mean_cd.norm(), centres_kd.norm(), centres_kd[-1].sum(), k_means.inertia_]
    expected = [row[name] for name in ("class_means", "centres", "last_centre", "inertia")]
    assert [float(number) for number in found] == pytest.approx(expected, rel=TOLERANCE)
    assert k_means.labels_.bincount(minlength=row["classes"]).tolist() == row["sizes"]


@pytest.mark.parametrize("row", rows("gcd", "accuracy"))
def test_accuracy_v2(row):
    truth, cluster = clustering(row)
    found = split_accuracy(truth, cluster, truth < row["old"])
    assert [found.all, found.old, found.new] == pytest.approx([row[part] for part in ("all", "old_right", "new_right")])
