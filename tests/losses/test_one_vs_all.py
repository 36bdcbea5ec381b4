from __future__ import annotations

import math

import pytest
import torch

from nngcd.losses.one_vs_all import certainty, detector_cross_entropy, detector_disagreement, detector_entropy


def test_undecided_detectors():
    yes_vbc = torch.zeros(2, 3, 4)
    assert detector_cross_entropy(yes_vbc, torch.tensor([0, 3, -1])).item() == pytest.approx(2 * math.log(2))
    assert detector_entropy(yes_vbc).item() == pytest.approx(math.log(2))
    assert detector_disagreement(yes_vbc).item() == 0
    assert certainty(yes_vbc).tolist() == [[0] * 3] * 2


def test_the_own_class_and_the_nearest_other_one_count():
    # sigmoid(ln 9) = 0.9; the labelled image is of class 1.
    yes_vbc = torch.tensor([[[math.log(9), math.log(3), 0.0], [5.0, 5.0, 5.0]]])
    expected = -math.log(3 / 4) - math.log(0.1)
    assert detector_cross_entropy(yes_vbc, torch.tensor([1, -1])).item() == pytest.approx(expected)


def test_disagreement_of_views():
    yes_vbc = torch.tensor([0.9, 0.6]).logit()[:, None, None]
    assert detector_disagreement(yes_vbc).item() == pytest.approx(0.18)
    # A third view like the first: two of three pairs differ.
    assert detector_disagreement(yes_vbc[[0, 1, 0]]).item() == pytest.approx(0.12)


def test_certainty_is_that_of_the_likeliest_class():
    yes_vbc = torch.tensor([[[0.1, 0.95], [0.1, 0.2], [0.3, 0.5]]]).logit()
    assert certainty(yes_vbc)[0].tolist() == pytest.approx([0.9, 0.6, 0], abs=1e-6)


def test_nothing_known_or_nothing_there_gives_no_loss():
    yes_vbc = torch.randn(2, 3, 0, requires_grad=True)
    assert certainty(yes_vbc).tolist() == [[1] * 3] * 2
    for loss in (detector_cross_entropy(yes_vbc, torch.full((3,), -1)), detector_entropy(yes_vbc)):
        assert loss.item() == 0
    none_vbc = torch.randn(2, 0, 4, requires_grad=True)
    for loss in (detector_disagreement(none_vbc), detector_entropy(none_vbc)):
        assert loss.item() == 0
        loss.backward()


def test_one_class_has_no_other():
    yes_vbc = torch.tensor([[[math.log(9)]]], requires_grad=True)
    loss = detector_cross_entropy(yes_vbc, torch.tensor([0]))
    assert loss.item() == pytest.approx(-math.log(0.9))
    loss.backward()
    assert yes_vbc.grad.isfinite().all()
