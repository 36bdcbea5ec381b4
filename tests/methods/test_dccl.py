from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from nngcd.clustering.communities import communities
from nngcd.core.errors import ConfigError, ResourceError
from nngcd.datasets.opening import open_dataset
from nngcd.methods import dccl, gcd
from nngcd.methods.concepts import images_of_concepts, moved_concepts, moved_in_turn
from nngcd.methods.contract import Batch, Moment, Overview
from nngcd.pipeline import fit
from nngcd.runs.preparing import prepare
from nngcd.settings import resolve

pytestmark = pytest.mark.needs("infomap")

SMALL_HEAD = {"n_hidden": 12, "n_projection": 8, "n_directions": 0}


@pytest.fixture
def method(blob_task):
    return dccl.Method(dccl.Config(**SMALL_HEAD), blob_task)


def test_the_concept_term_is_the_cross_entropy_of_the_cosines(method):
    """Image 0 has cosines 0.6 and 0.8 with the concepts and is in the second; image 1 is in none."""
    method.concepts_cd, method.concept_n = torch.eye(16)[:2], torch.tensor([-1, 1])
    features_vbd = torch.zeros(2, 2, 16)
    features_vbd[:, 0, 0], features_vbd[:, 0, 1], features_vbd[:, 1, 5] = 3.0, 4.0, 1.0
    labels_b, image_b = torch.tensor([-1, -1]), torch.tensor([1, 0])
    terms = method.loss(Batch(features_vbd, labels_b, Moment(150, 200, 0, 1), image_b))
    assert terms["concept"].item() == pytest.approx(0.4 * math.log(1 + math.exp(-0.2 / 0.05)), rel=1e-4)


def test_the_other_terms_are_those_of_gcd(task, two_views):
    method = dccl.Method(dccl.Config(**SMALL_HEAD), task)
    method.concepts_cd, method.concept_n = torch.eye(6)[:3], torch.arange(10) % 4 - 1
    terms = method.loss(two_views)
    same = gcd.contrast_terms(method.head(two_views.features_vbd), two_views.labels_b, method.config)
    assert set(terms) == {"contrast", "supcon", "concept"}
    assert all(terms[name].item() == same[name].item() for name in same)


def test_the_weight_rises_over_half_of_the_epochs(method):
    def weight(epoch, n_epochs):
        return method.concept_weight(Moment(epoch, n_epochs, 0, 1))

    assert [weight(epoch, 200) for epoch in (0, 99, 100, 199)] == pytest.approx([0.04, 0.4, 0.4, 0.4])
    assert weight(33, 200) == pytest.approx(0.04 + 0.36 / 3)
    assert [weight(epoch, 30) for epoch in (0, 7, 14, 29)] == pytest.approx([0.04, 0.22, 0.4, 0.4])
    assert weight(0, 1) == 0.4


def test_a_concept_moves_by_the_mean_of_its_images_and_the_others_stay():
    concepts_cd = torch.eye(3)
    unit_vbd = torch.tensor([[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]] * 2)
    moved_cd = moved_concepts(concepts_cd, unit_vbd, torch.tensor([0, 0, -1]), momentum=0.1)
    length = math.sqrt(0.1**2 + 2 * 0.45**2)
    assert moved_cd[0].tolist() == pytest.approx([0.1 / length, 0.45 / length, 0.45 / length])
    assert torch.equal(moved_cd[1:], concepts_cd[1:])


def test_images_that_move_a_concept_in_turn_count_the_more_the_later_they_come():
    unit_vbd = torch.tensor([[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]])
    moved_cd = moved_in_turn(torch.eye(3), unit_vbd, torch.tensor([0, 0, -1]), momentum=0.5)
    # Halfway to the first image at 45 degrees, then halfway to the second, which is at a right angle to both.
    assert moved_cd[0].tolist() == pytest.approx([0.5, 0.5, math.sqrt(0.5)])
    assert torch.equal(moved_cd[1:], torch.eye(3)[1:])


def test_of_every_concept_16_images_are_drawn_which_repeat_themselves_only_where_there_are_too_few(rng):
    concept_n = torch.from_numpy(rng.permutation([0] * 5 + [1] * 30 + [2] * 17 + [3] * 16 + [-1] * 9))
    drawn = images_of_concepts(concept_n, 16, torch.Generator().manual_seed(0))
    n_different = {}
    for image_m in drawn.split(16):
        (concept,) = concept_n[image_m].unique().tolist()
        n_different[concept] = len(image_m.unique())
    assert sorted(n_different) == [0, 1, 2, 3]
    assert n_different[1] == n_different[2] == 16
    # 15 others are not 16: they may repeat themselves, and the first image of all is drawn once.
    assert n_different[3] < 16 and n_different[0] <= 5
    assert images_of_concepts(torch.tensor([0, -1]), 16, torch.Generator()).tolist() == [0]


def test_the_concept_term_may_draw_images_of_its_own(blob_task, blob_overview):
    method = dccl.Method(dccl.Config(**SMALL_HEAD, concept_images="own"), blob_task)
    method.look(blob_overview)
    drawn = method.draw(blob_overview.labels_n.numpy(), 48, torch.Generator().manual_seed(0))
    assert [len(image_b) for image_b in drawn] == [96] * 5
    # Three concepts of 16 images each.
    assert all(len(method.concept_n[image_b[48:]].unique()) == 3 for image_b in drawn)
    assert any(len(method.concept_n[image_b[:48]].unique()) > 3 for image_b in drawn)
    features_vbd = torch.randn(2, 96, 16, generator=torch.Generator().manual_seed(1))
    batch = Batch(features_vbd, blob_overview.labels_n[drawn[0]], Moment(0, 8, 0, 80), drawn[0])
    terms = method.loss(batch)
    same = gcd.contrast_terms(method.head(features_vbd[:, :48]), batch.labels_b[:48], method.config)
    assert {name: terms[name].item() for name in same} == {name: term.item() for name, term in same.items()}
    method.n_shared, alone = None, batch._replace(features_vbd=features_vbd[:, 48:], image_b=drawn[0][48:])
    assert terms["concept"].item() == method.loss(alone._replace(labels_b=batch.labels_b[48:]))["concept"].item()


def test_a_run_with_images_of_its_own_for_the_concept_term(blob_split):
    values = {"method": "dccl", "k": 6, "loss": SMALL_HEAD | {"concept_images": "own", "concept_moves": "in_turn"}}
    found = fit(blob_split, resolve(values | {"training": {"epochs": 2, "batch_size": 48}}))
    assert found.scores_nk.shape == (len(blob_split), 6)


def test_moving_is_that_of_a_slow_reference_and_leaves_directions_of_length_1():
    generator = torch.Generator().manual_seed(0)
    concepts_cd, unit_vbd = (
        torch.nn.functional.normalize(torch.randn(shape, generator=generator), dim=-1) for shape in ((4, 5), (2, 9, 5))
    )
    concept_b = torch.tensor([0, 3, -1, 3, 3, 0, -1, 1, 3])
    moved_cd = moved_concepts(concepts_cd, unit_vbd, concept_b, momentum=0.3)
    for concept in range(4):
        views = [unit_vbd[v, b] for v in range(2) for b in range(9) if concept_b[b] == concept]
        expected = concepts_cd[concept]
        if views:
            expected = 0.3 * expected + 0.7 * torch.stack(views).mean(0)
        assert moved_cd[concept].tolist() == pytest.approx((expected / expected.norm()).tolist(), abs=1e-6)


def test_concepts_are_the_mean_directions_of_communities(method, blob_overview, blobs):
    method.look(blob_overview)
    assert method.concept_n.tolist() == communities(blob_overview.features_nd, blob_overview.labels_n).tolist()
    classes = blobs[2]
    for concept, concept_d in enumerate(method.concepts_cd):
        members = method.concept_n.numpy() == concept
        mean_d = blobs[0][members].mean(0)
        assert concept_d.tolist() == pytest.approx((mean_d / np.linalg.norm(mean_d)).tolist(), abs=1e-5)
        assert len(set(classes[members])) == 1


def test_concepts_move_after_the_step_only_and_without_gradient(method, blob_overview):
    method.look(blob_overview)
    before = method.concepts_cd.clone()
    features_vbd = torch.randn(2, 4, 16, generator=torch.Generator().manual_seed(0), requires_grad=True)
    batch = Batch(features_vbd, torch.full((4,), -1), Moment(0, 8, 0, 80), torch.tensor([0, 1, 50, 90]))
    method.loss(batch)["concept"].backward()
    assert torch.equal(method.concepts_cd, before)
    method.after_step(batch.moment)
    in_batch = set(method.concept_n[batch.image_b].tolist())
    is_same = [torch.equal(old, new) for old, new in zip(before, method.concepts_cd, strict=True)]
    assert is_same == [concept not in in_batch for concept in range(len(before))]
    assert not method.concepts_cd.requires_grad


def test_without_any_concept_the_term_is_zero(method, blob_overview):
    method.look(Overview(torch.eye(16), torch.full((16,), -1), 0, seed=0))
    assert method.concepts_cd.shape == (0, 16)
    features_vbd = torch.randn(2, 4, 16, requires_grad=True)
    batch = Batch(features_vbd, torch.full((4,), -1), Moment(0, 8, 0, 80), torch.arange(4))
    concept = method.loss(batch)["concept"]
    concept.backward()
    assert concept.item() == 0
    assert features_vbd.grad.abs().max() == 0
    method.after_step(batch.moment)


def test_concepts_are_no_part_of_a_saved_model(method, blob_overview):
    method.look(blob_overview)
    assert not [name for name in method.state_dict() if "concept" in name]


@pytest.mark.parametrize(("preset", "is_trained"), [("official", True), ("paper", True), ("default", False)])
def test_the_authors_train_the_final_norm(image_folder, preset, is_trained):
    split, _ = open_dataset(str(image_folder))
    network = {"backbone": "test_vit", "weights": "random", "image_size": 32, "effort": "full"}
    values = {"data": str(image_folder), "method": "dccl", "preset": preset, "k": 3, "loss": SMALL_HEAD} | network
    with pytest.warns(UserWarning, match="random weights"):
        tail = prepare(split, resolve(values)).backbone.tail
    assert [p.requires_grad for name, p in tail.named_parameters() if ".norm." in name] == [is_trained] * 2


def test_presets_are_those_of_the_authors_code():
    official, paper, default = (
        resolve({"method": "dccl", "preset": preset}).loss for preset in ("official", "paper", "default")
    )
    assert (official.n_neighbours, paper.n_neighbours) == (14, 15)
    assert (official.concept_moves, official.concept_images) == (paper.concept_moves, paper.concept_images)
    assert (official.concept_moves, official.concept_images) == ("in_turn", "own")
    assert (default.concept_moves, default.concept_images) == ("mean", "batch")


def test_a_missing_infomap_stops_a_fit_at_once_and_no_prediction(blob_split, blob_task, monkeypatch):
    monkeypatch.setattr("nngcd.clustering.communities.importlib.util.find_spec", lambda name: None)
    method = dccl.Method(dccl.Config(**SMALL_HEAD), blob_task)
    assert method.assign(torch.ones(2, 16)).shape == (2, 6)
    with pytest.raises(ResourceError, match="infomap"):
        fit(blob_split, resolve({"method": "dccl", "k": 6}))


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_neighbours", 0), ("min_similarity", 1.0), ("min_concept", 0), ("concept_temperature", 0.0),
     ("concept_momentum", 1.1), ("concept_weight", -1.0), ("concept_rise", 2.0), ("n_starts", 0)],
)  # fmt: skip
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        dccl.Config(**{name: value})
