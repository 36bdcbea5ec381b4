from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from nngcd.core.errors import ConfigError
from nngcd.methods import pim

SMALL_HEAD = {"n_hidden": 12, "n_projection": 8, "n_directions": 0}


def test_the_loss_of_two_images_worked_out_by_hand():
    # Image 0 is labelled 0 and sure at 3 : 1, image 1 is unlabelled and undecided.
    logits_nk = torch.tensor([[math.log(3.0), 0.0], [0.0, 0.0]])
    marginal = [(0.75 + 0.5) / 2, (0.25 + 0.5) / 2]
    entropy = -sum(p * math.log(p) for p in marginal)
    expected = 0.4 * math.log(2) - entropy - math.log(0.75)
    assert pim.information_loss(logits_nk, torch.tensor([0, -1]), 0.4).item() == pytest.approx(expected)


@pytest.mark.parametrize("labels", [[-1, -1], [0, 1]])
def test_the_loss_is_finite_with_no_label_and_with_labels_only(labels):
    logits_nk = torch.tensor([[200.0, -200.0], [200.0, -200.0]], requires_grad=True)
    loss = pim.information_loss(logits_nk, torch.tensor(labels), 1.0)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits_nk.grad).all()


def test_maximising_information_lowers_the_loss_and_keeps_labels(blob_overview):
    config = pim.Config(n_steps=50)
    unit_nd, labels_n = F.normalize(blob_overview.features_nd, dim=-1), blob_overview.labels_n
    start_kd = torch.randn(6, 16, generator=torch.Generator().manual_seed(0)) * 0.1
    weight_kd = pim.maximise_information(start_kd, unit_nd, labels_n, 0.5, 200, config)
    before, after = (
        pim.information_loss(config.scale * unit_nd @ w.T, labels_n, 0.5).item() for w in (start_kd, weight_kd)
    )
    assert after < before
    is_labelled = labels_n >= 0
    assert torch.equal((unit_nd @ weight_kd.T).argmax(-1)[is_labelled], labels_n[is_labelled])


def test_a_given_lambda_is_used_and_otherwise_one_is_searched(blob_task, blob_overview, monkeypatch):
    used = []
    original = pim.maximise_information

    def spy(start_kd, unit_nd, labels_n, conditional_weight, n_steps, config):
        used.append((round(conditional_weight, 3), n_steps, bool((labels_n >= 0).any())))
        return original(start_kd, unit_nd, labels_n, conditional_weight, 2, config)

    monkeypatch.setattr(pim, "maximise_information", spy)
    settings = {**SMALL_HEAD, "n_starts": 2, "n_candidates": 4, "search_steps": 7, "n_steps": 9}
    pim.Method(pim.Config(**settings, conditional_weight=0.3), blob_task).settle(blob_overview)
    assert used == [(0.3, 9, True)]
    used.clear()
    pim.Method(pim.Config(**settings), blob_task).settle(blob_overview)
    # The trials see no label, the smallest candidate (0.25) is not among them, and the final fit sees all labels.
    assert [trial[:2] for trial in used[:-1]] == [(0.5, 7), (0.75, 7), (1.0, 7)]
    assert not any(sees_labels for *_, sees_labels in used[:-1])
    assert used[-1][1:] == (9, True)


def test_the_lambda_that_matches_the_labels_best_is_taken(blob_task, blob_overview, monkeypatch):
    used, shares = [], iter([20.0, 90.0, 40.0])
    found = torch.zeros(blob_task.n_clusters, blob_task.n_features)

    def spy(start_kd, unit_nd, labels_n, conditional_weight, n_steps, config):
        used.append(conditional_weight)
        return found

    monkeypatch.setattr(pim, "maximise_information", spy)
    monkeypatch.setattr(pim, "split_accuracy", lambda *_: SimpleNamespace(all=next(shares)))
    pim.Method(pim.Config(**SMALL_HEAD, n_starts=1, n_candidates=4), blob_task).settle(blob_overview)
    assert used == pytest.approx([0.5, 0.75, 1.0, 0.75])


@pytest.mark.parametrize(("name", "value"), [("conditional_weight", -0.1), ("n_candidates", 0), ("scale", 0.0)])
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        pim.Config(**{name: value})
