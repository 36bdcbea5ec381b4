from __future__ import annotations

import pytest
from golden_numbers import TOLERANCE, assert_agrees, normal, rows
from head_inputs import step

from nngcd.methods.legogcd import confident_old


@pytest.mark.parametrize("row", rows("legogcd", "whole_loss"))
def test_the_loss_of_a_step(row):
    method, batch, inputs = step("legogcd", row)
    method.mean_prediction_k = normal(row["seed"] + 40, 7).detach().softmax(-1)
    picked = confident_old(
        method.prototypes(batch.features_vbd) / 0.1, batch.labels_b, n_old=4, least=method.config.confident_from
    )
    assert int(picked.sum()) == row["n_picked"]
    assert_agrees(row, sum(method.loss(batch).values()), *inputs)
    method.after_step(batch.moment)
    assert method.mean_prediction_k.norm().item() == pytest.approx(row["mean_after"], rel=TOLERANCE)
