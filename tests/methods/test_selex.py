from __future__ import annotations

import pytest
import torch

from nngcd.methods import selex
from nngcd.methods.contract import Overview
from nngcd.methods.selex import level_sizes, shifted_labels
from nngcd.settings import resolve

SMALL = {"n_hidden": 12, "n_projection": 8, "n_directions": 0, "n_starts": 2, "cluster_start": "matched"}


@pytest.mark.parametrize(
    ("n_old", "n_new", "coarser"),
    [
        (100, 100, [(50, 50), (25, 25), (12, 12), (6, 6), (3, 3), (1, 1)]),
        (80, 20, [(40, 10), (20, 5), (10, 2), (5, 1), (2, 1), (1, 1)]),
        (4, 0, [(2, 0), (1, 0)]),
        (0, 9, []),
    ],
)
def test_levels_are_halved_until_one_old_cluster_is_left(n_old, n_new, coarser):
    assert level_sizes(n_old, n_new) == [(n_old, n_new), *coarser]


def test_images_of_an_old_cluster_stay_together_at_every_level(blob_task, blob_overview, blobs):
    method = selex.Method(selex.Config(**SMALL), blob_task)
    method.look(blob_overview)
    classes = torch.from_numpy(blobs[2])
    assert method.pseudo_label_ln.shape == method.radius_ln.shape == (2, 240)
    assert torch.equal(method.pseudo_label_ln[0][classes < 3], classes[classes < 3])
    # The second level has one group of old clusters and one new one: their sizes are equal, 120 of 240 each.
    coarse_n = method.pseudo_label_ln[1]
    assert coarse_n[classes < 3].unique().tolist() == [0]
    assert coarse_n.bincount().tolist() == [120, 120]


def permuted(overview, order_n):
    return Overview(overview.features_nd[order_n], overview.labels_n[order_n], overview.epoch, overview.seed)


def together(label_n):
    return label_n[:, None] == label_n


@pytest.mark.parametrize(("coarse_labels", "is_the_same"), [("right", True), ("shifted", False)])
def test_the_order_of_images_changes_labels_only_in_the_authors_code(
    blob_task, blob_overview, coarse_labels, is_the_same
):
    method = selex.Method(selex.Config(**SMALL, coarse_labels=coarse_labels), blob_task)
    order_n = torch.randperm(240, generator=torch.Generator().manual_seed(0))
    method.look(blob_overview)
    label_ln = method.pseudo_label_ln
    method.look(permuted(blob_overview, order_n))
    # Which number a new cluster has depends on chance.
    assert torch.equal(together(method.pseudo_label_ln[0]), together(label_ln[0][order_n]))
    assert torch.equal(method.pseudo_label_ln[1], label_ln[1][order_n]) == is_the_same


def test_labels_as_the_authors_read_them():
    # In the data: images 1 and 3, which are labelled, then 0, 2, 4. Listed: 1, 3, 2 of old clusters, then 0, 4.
    labels_n = torch.tensor([-1, 0, -1, 1, -1])
    is_in_old_n = torch.tensor([False, True, True, True, False])
    assert shifted_labels(torch.tensor([9, 1, 2, 3, 8]), labels_n, is_in_old_n).tolist() == [2, 1, 9, 3, 8]


def test_presets_are_the_published_settings():
    cub = resolve({"method": "selex", "preset": "official", "dataset": "cub", "effort": "full"})
    assert (cub.tail_blocks, cub.training.epochs, cub.training.decay) == (2, 200, "all")
    assert (cub.loss.smoothing, cub.loss.spread, cub.loss.distances_of, cub.loss.coarse_labels) == (
        1.0, "other", "raw", "shifted",
    )  # fmt: skip
    assert resolve({"method": "selex", "preset": "official", "dataset": "stanford_cars"}).tail_blocks == 3
    default = resolve({"method": "selex", "dataset": "cub"}).loss
    assert (default.smoothing, default.spread, default.distances_of, default.coarse_labels) == (
        0.5, "own", "unit", "right",
    )  # fmt: skip
