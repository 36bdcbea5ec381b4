from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nngcd.clustering.kmeans import KMeans
from nngcd.core.errors import ConfigError
from nngcd.core.seeds import torch_generator
from nngcd.losses.info_nce import info_nce
from nngcd.losses.supcon import supcon
from nngcd.methods import gcd, xcon
from nngcd.methods.contract import Batch, Moment, Overview, Task
from nngcd.pipeline import fit
from nngcd.settings import resolve

SMALL_HEAD = {"n_hidden": 12, "n_projection": 8, "n_directions": 0}
MOMENT = Moment(3, 30, 7, 300)


def small_task():
    return Task(n_features=6, n_clusters=5, n_old=2, generator=torch_generator(0, "init"))


def test_the_fine_terms_worked_out_by_hand(task):
    """Expert 0 sees two images at right angles, expert 1 a single one, expert 2 none."""
    method = xcon.Method(xcon.Config(**SMALL_HEAD, n_experts=3, fine_weight=0.6), task)
    method.expert_heads = nn.ModuleList(nn.Identity() for _ in range(3))
    method.expert_n = torch.tensor([0, 1, 0])
    features_vbd = torch.eye(6)[:3].expand(2, 3, 6)
    terms = method.loss(Batch(features_vbd, torch.tensor([1, 1, 1]), MOMENT, torch.arange(3)))
    # A view meets its other view at cosine 1 and the two views of the other image at 0.
    contrast = math.log(math.e + 2) - 1
    assert terms["fine_contrast"].item() == pytest.approx(0.6 * 0.65 * contrast / 3, rel=1e-5)
    # All four views are of one class: of the three positives one has cosine 1, the others 0; exp(-1 / 0.07) is nothing.
    labelled = 2 / 3 / 0.07
    assert terms["fine_supcon"].item() == pytest.approx(0.6 * 0.35 * labelled / 3, rel=1e-5)


def test_every_expert_contrasts_its_own_images_with_its_own_head(task, two_views):
    method = xcon.Method(xcon.Config(**SMALL_HEAD, n_experts=4), task)
    # Image 7 of the data is the first of the batch, and so on: experts are known by image, not by place in the batch.
    image_b = torch.tensor([7, 3, 0, 9, 11, 2, 5, 4, 8, 1])
    method.expert_n = torch.tensor([0, 1, 1, 0, 1, 0, 3, 1, 0, 3, 3, 0])
    terms = method.loss(two_views._replace(image_b=image_b))
    contrast = labelled = 0.0
    for expert in range(4):
        places = [place for place, image in enumerate(image_b.tolist()) if method.expert_n[image] == expert]
        z_vbd = method.expert_heads[expert](two_views.features_vbd[:, places])
        contrast += info_nce(z_vbd, temperature=1.0).item() / 4
        labelled += supcon(z_vbd, two_views.labels_b[places], temperature=0.07).item() / 4
    assert labelled > 0
    assert terms["fine_contrast"].item() == pytest.approx(0.1 * 0.65 * contrast)
    assert terms["fine_supcon"].item() == pytest.approx(0.1 * 0.35 * labelled)


def test_the_coarse_terms_are_gcds_whatever_the_experts_do(two_views):
    method = xcon.Method(xcon.Config(**SMALL_HEAD, fine_weight=0.0), small_task())
    method.expert_n = torch.arange(10) % 8
    terms = method.loss(two_views)
    expected = gcd.Method(gcd.Config(**SMALL_HEAD), small_task()).loss(two_views)
    assert {name: terms[name].item() for name in expected} == {name: term.item() for name, term in expected.items()}
    assert terms["fine_contrast"].item() == terms["fine_supcon"].item() == 0


def test_experts_without_two_images_add_nothing_but_have_a_gradient(task, two_views):
    """Of several processes each must have a gradient of every weight."""
    method = xcon.Method(xcon.Config(**SMALL_HEAD, n_experts=3), task)
    method.expert_n = torch.tensor([1] + [0] * 9)
    terms = method.loss(two_views)
    torch.stack(list(terms.values())).sum().backward()
    largest = [max(p.grad.abs().max().item() for p in head.parameters()) for head in method.expert_heads]
    assert largest[0] > 0
    assert largest[1] == pytest.approx(0, abs=1e-7)
    assert largest[2] == 0


def test_images_are_shared_out_once_by_the_direction_of_their_features(blob_task, blob_overview):
    method = xcon.Method(xcon.Config(**SMALL_HEAD, n_experts=4), blob_task)
    assert [epoch for epoch in range(30) if method.looks_before(epoch, 30)] == [0]
    method.look(blob_overview)
    unit_nd = F.normalize(blob_overview.features_nd, dim=-1)
    assert method.expert_n.tolist() == KMeans(4, random_state=blob_overview.seed).fit(unit_nd).labels_.tolist()
    assert method.expert_n.unique().tolist() == [0, 1, 2, 3]
    found_n = method.expert_n
    method.look(blob_overview._replace(features_nd=unit_nd * torch.arange(1.0, 241.0)[:, None]))
    together_nn, found_nn = (n[:, None] == n for n in (method.expert_n, found_n))
    assert torch.equal(together_nn, found_nn)


def test_experts_may_draw_images_of_their_own_for_as_long_as_the_largest_needs(task):
    method = xcon.Method(xcon.Config(**SMALL_HEAD, n_experts=4, expert_images="own"), task)
    # The fourth expert has no image. Labelled are all of the third, a tenth of the others.
    method.expert_n = torch.tensor([0] * 700 + [1] * 400 + [2] * 100)
    labels_n = torch.where((torch.arange(1200) % 10 == 0) | (method.expert_n == 2), 0, -1)
    drawn = method.draw(labels_n.numpy(), 80, torch.Generator().manual_seed(0))
    assert len(drawn) == 700 // 20 > 1200 // 80
    assert [method.expert_n[image_b[80:]].tolist() for image_b in drawn] == [[0] * 20 + [1] * 20 + [2] * 20] * 35
    is_labelled = (labels_n[torch.stack(list(drawn))] >= 0).float()
    shares = [part.mean().item() for part in is_labelled.split([80, 20, 20, 20], dim=1)]
    assert shares == pytest.approx([0.5, 0.5, 0.5, 1.0], abs=0.06)
    assert method.n_shared == 80


def test_official_draws_images_for_its_experts_and_default_does_not():
    settings = resolve({"method": "xcon", "preset": "official", "dataset": "cub"})
    assert (settings.training.batch_size, settings.loss.n_experts, settings.loss.expert_images) == (256, 8, "own")
    assert resolve({"method": "xcon", "dataset": "cub"}).loss.expert_images == "batch"


def test_a_run_in_which_experts_draw_images_of_their_own(blob_split):
    values = {"method": "xcon", "k": 6, "loss": SMALL_HEAD | {"expert_images": "own", "n_experts": 3}}
    found = fit(blob_split, resolve(values | {"training": {"epochs": 2, "batch_size": 48}}))
    assert found.scores_nk.shape == (len(blob_split), 6)


def test_fewer_images_than_experts_are_one_each(blob_task, blob_overview):
    method = xcon.Method(xcon.Config(**SMALL_HEAD), blob_task)
    method.look(Overview(blob_overview.features_nd[:40:8], blob_overview.labels_n[:40:8], 0, seed=0))
    assert sorted(method.expert_n.tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("name", "value"), [("n_experts", 0), ("fine_weight", -0.1), ("fine_weight", math.inf), ("n_starts", 0)]
)
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        xcon.Config(**{name: value})
