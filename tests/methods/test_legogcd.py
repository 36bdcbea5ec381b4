from __future__ import annotations

import math

import pytest
import torch

from nngcd.core.seeds import torch_generator
from nngcd.methods import legogcd, simgcd
from nngcd.methods.contract import Batch, Moment
from nngcd.methods.legogcd import confident_old, view_divergence

SMALL = {"n_hidden": 12, "n_projection": 8}
P = torch.tensor([[[0.9, 0.1]], [[0.6, 0.4]]])


def test_divergence_of_two_predictions():
    both = 0.9 * math.log(0.9 / 0.6) + 0.1 * math.log(0.1 / 0.4), 0.6 * math.log(0.6 / 0.9) + 0.4 * math.log(4)
    assert view_divergence(P.log()).item() == pytest.approx(sum(both) / 2)
    assert both[0] == pytest.approx(0.226289, abs=1e-6)
    # The authors' code: the logarithm of the softmax of 0.9 and 0.1, not of 0.9 and 0.1.
    assert view_divergence(P.log(), form="code").item() == pytest.approx(0.167038, abs=1e-6)
    assert view_divergence(P[:1].expand(3, 4, 2).log()).item() == pytest.approx(0, abs=1e-7)


def test_only_sure_unlabelled_images_of_old_classes_are_picked():
    # Four images: sure and old; not quite sure; sure and new; sure, old and labelled.
    p_bk = torch.tensor([[0.9, 0.05, 0.05], [0.84, 0.08, 0.08], [0.05, 0.05, 0.9], [0.9, 0.05, 0.05]])
    picked = confident_old(p_bk.log()[None], torch.tensor([-1, -1, -1, 0]), n_old=2, least=0.85)
    assert picked.tolist() == [[True, False, False, False]]


@pytest.mark.parametrize(
    ("mean", "entropy"), [([0.25] * 4, math.log(4)), ([0.7, 0.1, 0.1, 0.1], 1.449810)]
)  # fmt: skip
def test_the_entropy_of_a_flat_prediction_and_its_margin(task, mean, entropy):
    task = type(task)(n_features=6, n_clusters=4, n_old=4, generator=task.generator)
    method = legogcd.Method(legogcd.Config(**SMALL, confident_from=0.0, local_entropy_weight=1.0), task)
    method.mean_prediction_k = torch.tensor(mean)
    batch = Batch(torch.zeros(2, 3, 6), torch.full((3,), -1), Moment(0, 1, 0, 1), torch.arange(3))
    term = method.further_terms(batch, torch.zeros(2, 3, 4))["local_entropy"]
    assert term.item() == pytest.approx(entropy, abs=1e-5)


def test_the_mean_prediction_moves_after_the_step(task, two_views):
    task = type(task)(n_features=6, n_clusters=4, n_old=2, generator=task.generator)
    method = legogcd.Method(legogcd.Config(**SMALL), task)
    sure_vbk = torch.tensor([1e4, 0, 0, 0]).expand(2, 10, 4)
    for _ in range(2):  # a batch that is tried again counts once
        method.further_terms(two_views, sure_vbk)
    assert method.mean_prediction_k.tolist() == [0.25] * 4
    method.after_step(two_views.moment)
    assert method.mean_prediction_k.tolist() == pytest.approx([0.25075, *[0.24975] * 3])


def test_without_its_two_terms_it_is_simgcd(task, two_views):
    other = type(task)(n_features=6, n_clusters=5, n_old=2, generator=torch_generator(0, "init"))
    plain = simgcd.Method(simgcd.Config(**SMALL), other)
    method = legogcd.Method(legogcd.Config(**SMALL, divergence_weight=0, local_entropy_weight=0), task)
    found, expected = method.loss(two_views), plain.loss(two_views)
    assert {name: found[name] for name in expected} == expected
    assert sum(found.values()) == sum(expected.values())
