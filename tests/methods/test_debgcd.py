from __future__ import annotations

import math

import pytest
import torch

from nngcd.methods import debgcd
from nngcd.methods.contract import Batch, Moment
from nngcd.settings import resolve

SMALL = {"n_hidden": 12, "n_projection": 8}


@pytest.mark.parametrize(
    ("certain", "probability", "expected"), [(0.9, 0.8, 0.8 * math.log(4)), (0.5, 0.8, 0), (0.9, 0.6, 0)]
)
def test_only_sure_pseudo_labels_teach_and_as_much_as_the_detectors_are_certain(task, certain, probability, expected):
    task = type(task)(n_features=6, n_clusters=4, n_old=2, generator=task.generator)
    method = debgcd.Method(debgcd.Config(**SMALL), task)
    p_k = torch.tensor([probability, *[(1 - probability) / 3] * 3])
    logits_vbk = (p_k.log() * method.config.student_temperature).expand(2, 3, 4)
    yes_vbc = torch.tensor([certain, 0.01]).logit().expand(2, 3, 2)
    found = method._taught(torch.zeros(2, 3, 4), logits_vbk, yes_vbc, torch.full((3,), -1))
    assert found.item() == pytest.approx(expected, abs=1e-5)


def test_both_classifiers_start_and_turn_alike(blob_task, blob_overview):
    method = debgcd.Method(debgcd.Config(**SMALL, prototype_start="matched", prototype_learning_rate=1.0), blob_task)
    method.look(blob_overview)
    assert torch.equal(method.debiased.weight, method.prototypes.weight)
    with torch.no_grad():
        method.debiased.weight.mul_(3)
    method.after_step(Moment(0, 1, 0, 1))
    assert torch.allclose(method.debiased.weight, method.prototypes.weight)


def test_the_first_classifier_gives_the_result(task, two_views):
    method = debgcd.Method(debgcd.Config(**SMALL), task)
    features_nd = two_views.features_vbd[0]
    assert torch.equal(method.assign(features_nd), method.prototypes(features_nd) / 0.1)


def test_without_known_classes_there_are_no_detectors(task, two_views):
    task = type(task)(n_features=6, n_clusters=4, n_old=0, generator=task.generator)
    batch = Batch(two_views.features_vbd, torch.full((10,), -1), Moment(0, 1, 0, 1), torch.arange(10))
    terms = debgcd.Method(debgcd.Config(**SMALL), task).loss(batch)
    assert all(terms[f"detector_{name}"].item() == 0 for name in ("labels", "entropy", "views"))
    assert sum(terms.values()).isfinite()


def test_official_settings_are_those_of_the_scripts():
    cub, cifar = (resolve({"method": "debgcd", "preset": "official", "dataset": name, "effort": "full"})
                  for name in ("cub", "cifar100"))  # fmt: skip
    assert (cub.tail_blocks, cub.training.batch_size, cub.loss.confident_from, cub.loss.debiased_weight) == (
        2,
        128,
        0.65,
        4,
    )
    # The rate grows with the batch.
    assert (cifar.tail_blocks, cifar.training.batch_size, cifar.training.learning_rate) == (1, 256, 0.2)
    assert (cifar.loss.confident_from, cifar.loss.debiased_weight, cifar.loss.detector_weight) == (0.55, 0.5, 0.001)
