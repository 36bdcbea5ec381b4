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
    config = pim.Config(n_steps=200)
    unit_nd, labels_n = F.normalize(blob_overview.features_nd, dim=-1), blob_overview.labels_n
    start_kd = torch.randn(6, 16, generator=torch.Generator().manual_seed(0)) * 0.1
    weight_kd = pim.maximise_information(start_kd, unit_nd, labels_n, 0.5, config, is_trial=False)
    before, after = (
        pim.information_loss(config.scale * unit_nd @ w.T, labels_n, 0.5).item() for w in (start_kd, weight_kd)
    )
    assert after < before
    is_labelled = labels_n >= 0
    assert torch.equal((unit_nd @ weight_kd.T).argmax(-1)[is_labelled], labels_n[is_labelled])


def test_cross_entropy_is_left_out_of_a_trial_and_its_entropy_is_of_unlabelled_images_only():
    logits_nk = torch.tensor([[math.log(3.0), 0.0], [0.0, 0.0]])
    marginal = [(0.75 + 0.5) / 2, (0.25 + 0.5) / 2]
    expected = 0.4 * math.log(2) + sum(p * math.log(p) for p in marginal)
    loss = pim.information_loss(logits_nk, torch.tensor([0, -1]), 0.4, learns_labels=False)
    assert loss.item() == pytest.approx(expected)


@pytest.fixture
def trials(monkeypatch):
    """Spy on the classifiers that are trained: lambda, start and whether it is a trial; each ends one further on."""
    seen = []

    def spy(start_kd, unit_nd, labels_n, conditional_weight, config, *, is_trial):
        seen.append((round(conditional_weight, 3), start_kd.sum().item(), is_trial))
        return start_kd + 1 / start_kd.numel()

    monkeypatch.setattr(pim, "maximise_information", spy)
    return seen


def test_a_given_lambda_is_used_and_otherwise_one_is_searched(blob_task, blob_overview, trials):
    settings = {**SMALL_HEAD, "n_starts": 2, "n_candidates": 4}
    pim.Method(pim.Config(**settings, conditional_weight=0.3), blob_task).settle(blob_overview)
    assert [(weight, is_trial) for weight, _, is_trial in trials] == [(0.3, False)]
    trials.clear()
    pim.Method(pim.Config(**settings), blob_task).settle(blob_overview)
    # The smallest candidate (0.25) is not tried.
    assert [weight for weight, _, is_trial in trials if is_trial] == [0.5, 0.75, 1.0]
    assert not trials[-1][-1]


@pytest.mark.parametrize(("continues", "starts"), [(False, [0, 0, 0]), (True, [0, 1, 2, 3])])
def test_trials_start_at_the_centres_or_where_the_last_one_ended(blob_overview, trials, continues, starts):
    unit_nd = F.normalize(blob_overview.features_nd, dim=-1)
    config = pim.Config(n_candidates=4, trials_continue=continues)
    pim.search_lambda(torch.zeros(6, 16), unit_nd, blob_overview.labels_n, config)
    assert [start for _, start, _ in trials] == pytest.approx(starts)


@pytest.mark.parametrize("continues", [False, True])
def test_the_lambda_that_matches_the_labels_best_is_taken(blob_overview, trials, monkeypatch, continues):
    # The smallest candidate is never chosen; of equals in hundredths of a percent the smaller is.
    shares = iter([0.99] * continues + [0.2, 0.90001, 0.90002])
    monkeypatch.setattr(pim, "split_accuracy", lambda *_: SimpleNamespace(all=next(shares)))
    config = pim.Config(n_candidates=4, trials_continue=continues)
    unit_nd = F.normalize(blob_overview.features_nd, dim=-1)
    assert pim.search_lambda(torch.zeros(6, 16), unit_nd, blob_overview.labels_n, config) == 0.75


def test_lambda_is_one_without_labels_to_match_or_values_to_choose_from(blob_overview, trials):
    unit_nd, labels_n = F.normalize(blob_overview.features_nd, dim=-1), blob_overview.labels_n
    assert pim.search_lambda(torch.zeros(6, 16), unit_nd, torch.full_like(labels_n, -1), pim.Config()) == 1
    assert pim.search_lambda(torch.zeros(6, 16), unit_nd, labels_n, pim.Config(n_candidates=1)) == 1
    assert not trials


@pytest.mark.parametrize(("name", "value"), [("conditional_weight", -0.1), ("n_candidates", 0), ("scale", 0.0)])
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        pim.Config(**{name: value})
