from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nngcd.research.figures.activation import N_BINS, draw, profile
from nngcd.research.figures.subject import Activations


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


def test_runs_of_different_ranges_have_the_same_bins(subject):
    narrow = np.tile(np.float32([1, 1, 1, -1]), (24, 1))
    wide = np.tile(np.float32([0.6, 0.8, 0, 0]), (24, 1))
    runs = [replace(subject, activations=Activations(values, "features")) for values in (narrow, wide)]
    of_narrow, of_wide = (patch.get_data() for patch in draw(runs).panels[0][1].patches)
    assert of_narrow.edges.tolist() == of_wide.edges.tolist()
    assert of_narrow.edges[[0, -1]].tolist() == pytest.approx([-0.5, 0.8])
    assert len(of_narrow.values) == N_BINS
    assert [of_narrow.values.sum(), of_wide.values.sum()] == pytest.approx([1, 1])
