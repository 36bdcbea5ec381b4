from __future__ import annotations

import pytest
from golden_numbers import TOLERANCE, assert_agrees, fill, normal, rows
from head_inputs import WEIGHT_SCALE, step


@pytest.mark.parametrize("row", rows("debgcd", "whole_loss"))
def test_the_loss_of_a_step(row):
    method, batch, inputs = step("debgcd", row)
    debiased, detectors = method.debiased.weight, fill(method.detectors, row["seed"] + 100)
    debiased.data = WEIGHT_SCALE * normal(row["seed"] + 20, *debiased.shape).detach()
    layers = [part for part in detectors.parameters() if part.ndim == 2]
    terms, c = method.loss(batch), method.config
    weights = {
        "detector_labels": c.detector_weight,
        "detector_entropy": c.detector_weight * 0.1,
        "detector_views": c.detector_weight,
        "debiased_labels": c.debiased_weight / 2,
        "debiased_pseudo_labels": c.debiased_weight / 2,
    }
    for name, weight in weights.items():
        assert terms[name].item() == pytest.approx(weight * row[name], rel=TOLERANCE)
    assert_agrees(row, sum(terms.values()), *inputs, debiased, layers[0], *layers[-2:])
