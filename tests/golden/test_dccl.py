from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from golden_numbers import TOLERANCE, assert_agrees, classes, normal, rows

from nngcd.clustering.communities import communities, nearest_with_cosines, neighbour_links
from nngcd.core.seeds import torch_generator
from nngcd.methods import dccl
from nngcd.methods.concepts import images_of_concepts, mean_concepts
from nngcd.methods.contract import Batch, Moment, Task
from nngcd.settings import resolve


def official(n_features):
    loss = {"n_hidden": 4, "n_projection": 4, "n_directions": 8}
    config = resolve({"method": "dccl", "preset": "official", "loss": loss}).loss
    task = Task(n_features=n_features, n_clusters=5, n_old=2, generator=torch_generator(0, "init"))
    return dccl.Method(config, task).double()


@pytest.mark.parametrize("row", rows("dccl", "concept"))
def test_the_concept_term_and_how_it_moves_the_concepts(row):
    (_, n_images, n_features), n_concepts = row["shape"], row["n_concepts"]
    method, moment = official(n_features), Moment(199, 200, 0, 1)
    method.concepts_cd = F.normalize(normal(row["seed"], n_concepts, n_features).detach(), dim=-1)
    method.concept_n = classes(row["seed"] + 100, n_images, n_concepts)
    features_vbd = normal(row["seed"] + 50, *row["shape"])
    labels_b = torch.full((n_images,), -1)
    concept = method.loss(Batch(features_vbd, labels_b, moment, torch.arange(n_images)))["concept"]
    assert_agrees(row, concept / method.concept_weight(moment), features_vbd)
    method.after_step(moment)
    moved = (method.concepts_cd * normal(row["seed"] + 150, n_concepts, n_features)).sum()
    assert moved.item() == pytest.approx(row["moved"], rel=TOLERANCE)


@pytest.mark.parametrize("row", rows("dccl", "weight"))
def test_the_weight_of_the_concept_term(row):
    weights = {epoch: official(4).concept_weight(Moment(epoch, row["n_epochs"], 0, 1)) for epoch in row["at"]}
    assert weights == pytest.approx(row["at"], rel=TOLERANCE)


@pytest.mark.parametrize("row", rows("dccl", "start"))
def test_where_concepts_begin(row):
    (n_images, n_features), n_concepts = row["shape"], row["n_concepts"]
    length_n1 = np.random.RandomState(row["seed"] + 1).uniform(0.5, 5, (n_images, 1))
    features_nd = normal(row["seed"], n_images, n_features).detach() * torch.from_numpy(length_n1)
    concept_n = classes(row["seed"] + 2, n_images, n_concepts, labelled=0.8)
    concepts_cd = mean_concepts(features_nd, concept_n, n_concepts)
    assert_agrees(row, (concepts_cd * normal(row["seed"] + 3, n_concepts, n_features).detach()).sum())


@pytest.mark.parametrize("row", rows("dccl", "links"))
def test_the_weights_of_links(row):
    n_images, n_features = row["shape"]
    shift_nd = 2 * F.one_hot(torch.arange(n_images) % 3, n_features)
    nearest = nearest_with_cosines(normal(row["seed"], *row["shape"]).detach() + shift_nd, row["n_neighbours"])
    labels_n = torch.full((n_images,), 0 if row["is_labelled"] else -1)
    links = neighbour_links(nearest, labels_n, min_similarity=official(n_features).config.min_similarity)
    probe_nn = np.random.RandomState(row["seed"] + 1).standard_normal((n_images, n_images))
    assert len(links.weight_l) == row["n_links"]
    assert (links.weight_l * probe_nn[links.source_l, links.target_l]).sum() == pytest.approx(
        row["value"], rel=TOLERANCE
    )


@pytest.mark.parametrize("row", rows("dccl", "communities"))
def test_communities(row):
    pytest.importorskip("infomap")
    sizes, n_features, config = row["sizes"], row["n_features"], official(4).config
    group_n = np.repeat(np.arange(len(sizes)), sizes)
    direction_dd = np.linalg.qr(np.random.RandomState(row["seed"]).standard_normal((n_features, n_features)))[0]
    noise_nd = np.random.RandomState(row["seed"] + 1).standard_normal((len(group_n), n_features))
    found_n = communities(
        torch.from_numpy(direction_dd[group_n] + 0.08 * noise_nd), torch.full((len(group_n),), -1),
        n_neighbours=row["n_neighbours"], min_similarity=config.min_similarity, min_size=config.min_concept,
    )  # fmt: skip
    assert sorted(np.bincount(found_n[found_n >= 0]).tolist(), reverse=True) == row["found"]
    assert (found_n < 0).sum() == row["n_in_none"]


@pytest.mark.parametrize("row", rows("dccl", "draws"))
def test_draws(row):
    concept_n = torch.arange(len(row["sizes"])).repeat_interleave(torch.tensor(row["sizes"]))
    drawn = images_of_concepts(concept_n, dccl.N_EACH, torch_generator(0, "sampler"))
    assert concept_n[drawn].bincount().tolist() == row["drawn"]
    assert concept_n[drawn.unique()].bincount().tolist() == row["different"]
