from __future__ import annotations

import pytest

from nngcd.methods.heads import ACTIVATIONS
from nngcd.research.figures.gelu import caption, curve, draw


def test_every_activation_is_drawn_with_a_line_of_its_own(subject):
    values, gradients = draw([subject]).panels[0]
    assert [line.get_label() for line in values.lines[: len(ACTIVATIONS)]] == list(ACTIVATIONS)
    patterns = {(line.get_linestyle(), line._unscaled_dash_pattern[1] and tuple(line._unscaled_dash_pattern[1]))
                for line in values.lines[: len(ACTIVATIONS)]}  # fmt: skip
    assert len(patterns) == len(ACTIVATIONS)
    assert len(gradients.lines) == len(values.lines)


def test_rep_relu_has_the_values_of_relu_and_the_gradient_of_gelu():
    _, values, gradient = curve(ACTIVATIONS["rep_relu"])
    assert values == curve(ACTIVATIONS["relu"])[1]
    assert gradient == pytest.approx(curve(ACTIVATIONS["gelu"])[2])


def test_the_caption_says_that_gelu_is_not_non_negative():
    assert "minimum is -0.17" in caption()[0]
