from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from nngcd.methods import cms
from nngcd.results.result_tables import with_decisions

SMALL = {"n_hidden": 12, "n_projection": 6, "n_directions": 0}


def headless(task, **settings):
    method = cms.Method(cms.Config(**SMALL | {"n_projection": task.n_features} | settings), task)
    method.head = torch.nn.Identity()
    return method


@pytest.mark.parametrize(("left_out", "image", "expected"), [("own", 1, 2), ("own", 0, 1), ("nearest", 0, 2)])
def test_which_entry_of_the_memory_is_no_neighbour(task, left_out, image, expected):
    method = headless(task, left_out=left_out, n_neighbours=1)
    method.memory_nd = torch.eye(6)[:3]
    z_vbd = torch.tensor([[[0.1, 1.0, 0.5, 0, 0, 0]]])
    assert method.neighbour_means(z_vbd, torch.tensor([image])).argmax().item() == expected


def test_the_memory_holds_every_image_and_is_forgotten_at_the_end(blob_task, blob_overview):
    method = headless(blob_task)
    method.look(blob_overview)
    assert method.memory_nd.shape == blob_overview.features_nd.shape
    assert torch.allclose(method.memory_nd.norm(dim=1), torch.ones(240))
    method.settle(blob_overview)
    assert not len(method.memory_nd)


def test_clusters_are_named_and_new_images_join_the_nearest(blob_task, blob_overview, blobs):
    method = headless(blob_task)
    cluster_n = method.settle(blob_overview)
    classes = torch.from_numpy(blobs[2])
    assert torch.equal(cluster_n[classes < 3], classes[classes < 3])
    scores_nk = with_decisions(method.assign(blob_overview.features_nd), cluster_n)
    assert torch.equal(scores_nk.argmax(-1), cluster_n)


def test_a_sample_makes_the_tree_where_there_are_many_images(blob_task, blob_overview, blobs, monkeypatch):
    monkeypatch.setattr(cms, "MOST_IN_TREE", 100)
    cluster_n = headless(blob_task).settle(blob_overview)
    classes = torch.from_numpy(blobs[2])
    assert len(cluster_n) == 240
    assert (cluster_n[classes < 3] == classes[classes < 3]).float().mean() > 0.95


def test_an_estimated_number_of_clusters_gives_way_to_the_labels(blob_task, blob_overview):
    """With three clusters of six blobs, Ward's tree must mix known ones with others."""
    method = headless(replace(blob_task, n_clusters=3, k_range=(3, 8)))
    assert method._numbers(240) == [3, 4, 5, 6, 7, 8]
    cluster_n = method.settle(blob_overview)
    is_labelled_n = blob_overview.labels_n >= 0
    assert torch.equal(cluster_n[is_labelled_n], blob_overview.labels_n[is_labelled_n])
    assert 3 <= method.n_clusters == len(cluster_n.unique()) <= 8
    assert method.assign(blob_overview.features_nd).shape[1] == method.n_clusters


def test_numbers_nearest_to_the_estimate_come_first(blob_task):
    assert headless(replace(blob_task, k_range=(2, 8)))._numbers(7) == [6, 5, 7, 4, 3]
    assert headless(blob_task)._numbers(240) == [6]
