from __future__ import annotations

import numpy as np
import torch

from nngcd.core.seeds import torch_generator
from nngcd.methods import kmeans
from nngcd.methods.contract import Overview, Task
from nngcd.settings import resolve


def settled(features, labels, *, n_clusters, n_old, **settings):
    task = Task(n_features=features.shape[1], n_clusters=n_clusters, n_old=n_old, generator=torch_generator(0, "init"))
    method = kmeans.Method(kmeans.Config(**settings), task)
    method.settle(Overview(torch.from_numpy(features), torch.from_numpy(labels), 0, seed=0))
    return method


def test_the_assignment_is_the_nearest_centre(rng):
    features = rng.normal(size=(60, 5)).astype(np.float32)
    method = settled(features, np.full(60, -1), n_clusters=4, n_old=0)
    unit = torch.nn.functional.normalize(torch.from_numpy(features), dim=-1)
    nearest = torch.cdist(unit, method.centres_kd).argmin(-1)
    assert torch.equal(method.assign(torch.from_numpy(features)).argmax(-1), nearest)


def test_a_class_without_a_cluster_of_its_own_takes_one_that_is_left(rng):
    # Both old classes lie in one blob: only one of them can have it, the other must still get a number.
    blob = np.eye(4, dtype=np.float32)[np.repeat([0, 1, 2], 20)] + rng.normal(size=(60, 4)).astype(np.float32) * 0.01
    labels = np.full(60, -1)
    labels[:10] = [0, 1] * 5
    method = settled(blob, labels, n_clusters=3, n_old=2)
    cluster = method.assign(torch.from_numpy(blob)).argmax(-1).numpy()
    assert sorted(set(cluster)) == [0, 1, 2]
    assert len(set(cluster[:20])) == 1
    assert cluster[0] in (0, 1)


def test_labelled_images_may_be_left_out_and_still_give_the_clusters_their_names(rng):
    features = np.eye(4, dtype=np.float32)[np.repeat([2, 0, 1], 20)] + rng.normal(size=(60, 4)).astype(np.float32) * 0.1
    labels = np.full(60, -1)
    labels[:5], labels[20:25] = 0, 1
    unit = torch.nn.functional.normalize(torch.from_numpy(features), dim=-1)
    for cluster_on, first in (("all", 0), ("unlabelled", 5)):
        method = settled(features, labels, n_clusters=3, n_old=2, cluster_on=cluster_on)
        expected = torch.stack([unit[first:20].mean(0), unit[20 + first : 40].mean(0), unit[40:].mean(0)])
        torch.testing.assert_close(method.centres_kd, expected)


def test_official_clusters_the_unlabelled_images_only():
    found = {
        preset: resolve({"method": "kmeans", "preset": preset}).loss.cluster_on for preset in ("official", "paper")
    }
    assert found == {"official": "unlabelled", "paper": "all"}
    assert resolve({"method": "kmeans"}).loss.cluster_on == "all"
