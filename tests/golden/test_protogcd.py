from __future__ import annotations

import pytest
from golden_numbers import TOLERANCE, assert_agrees, rows
from head_inputs import step


@pytest.mark.parametrize("row", rows("protogcd", "whole_loss"))
def test_the_loss_of_a_step(row):
    method, batch, inputs = step("protogcd", row)
    terms = method.loss(batch)
    weights = {"pseudo_label": 0.65, "separation": 0.65 * method.config.separation_weight}
    for name, weight in weights.items():
        assert terms[name].item() == pytest.approx(weight * row[name], rel=TOLERANCE)
    assert_agrees(row, sum(terms.values()), *inputs)
