from __future__ import annotations

import pytest
from golden_numbers import assert_agrees, rows
from head_inputs import step


@pytest.mark.parametrize("row", rows("simgcd", "whole_loss"))
def test_the_loss_of_a_step(row):
    method, batch, inputs = step("simgcd", row)
    assert_agrees(row, sum(method.loss(batch).values()), *inputs)
