from __future__ import annotations

import numpy as np
import pytest

from nngcd.figures.activation import draw, profile


def test_a_profile_worked_out_by_hand():
    found = profile(np.array([[3.0, -4.0, 0.0, 0.0], [5.0, 0.0, 0.0, 0.0]]))
    assert found.mean_d.tolist() == pytest.approx([0.8, 0.4, 0.0, 0.0])
    assert found.zeros == pytest.approx(5 / 8)
    assert found.negative_entries == pytest.approx(1 / 8)
    assert found.negative_mass == pytest.approx(0.8 / 2.4)
    # By Hoyer, of four axes: the root of 4 less the sum, over the root of 4 less one.
    assert found.sparsity == pytest.approx((0.6 + 1.0) / 2)


def test_the_length_of_an_image_changes_nothing(rng):
    values = rng.normal(size=(20, 8))
    scaled = profile(values * rng.uniform(1, 9, size=(20, 1)))
    assert scaled.mean_d == pytest.approx(profile(values).mean_d)
    assert scaled.sparsity == pytest.approx(profile(values).sparsity)


def test_an_image_of_zeros_is_no_error():
    assert profile(np.zeros((2, 4))).negative_mass == 0


def test_the_shares_of_both_runs_are_shown_and_named(pair):
    _, _, shares = draw(pair).panels[0]
    assert len(shares.patches) == 8
    assert [text.get_text() for text in shares.get_legend().get_texts()] == ["ours", "theirs"]
    heights = [patch.get_height() for patch in shares.patches[:4]]
    found = profile(pair[0].activations.values_nd)
    assert heights == [found.zeros, found.negative_entries, found.negative_mass, found.sparsity]
