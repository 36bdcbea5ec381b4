from __future__ import annotations

import math

import numpy as np
import pytest

from nngcd.metrics.calibration import auroc, expected_calibration_error, reliability, share_interval


def test_calibration_error_worked_out_by_hand():
    confidence = np.array([0.95, 0.85, 0.35, 0.35])
    is_right = np.array([True, False, True, False])
    # Bins of 0.1: |0.95 - 1| once, |0.85 - 0| once, |0.35 - 0.5| twice, over four images.
    assert expected_calibration_error(confidence, is_right) == pytest.approx((0.05 + 0.85 + 2 * 0.15) / 4)
    bins = reliability(confidence, is_right)
    assert [(part.n, part.accuracy) for part in bins] == [(2, 0.5), (1, 0.0), (1, 1.0)]
    assert (bins[0].low, bins[0].high) == pytest.approx((0.3, 0.4))


def test_an_edge_belongs_to_the_lower_bin_and_zero_to_the_first():
    bins = reliability(np.array([0.0, 0.5, 1.0]), np.ones(3, dtype=bool), n_bins=2)
    assert [(part.low, part.n) for part in bins] == [(0.0, 2), (0.5, 1)]


def test_what_is_true_as_often_as_stated_has_almost_no_error(rng):
    confidence = rng.random(20_000)
    is_right = rng.random(20_000) < confidence
    assert expected_calibration_error(confidence, is_right) < 0.02
    assert expected_calibration_error(np.sqrt(confidence), is_right) > 0.1
    assert math.isnan(expected_calibration_error(np.zeros(0), np.zeros(0, dtype=bool)))


def test_auroc_counts_pairs():
    score = np.array([0.1, 0.4, 0.4, 0.8])
    is_new = np.array([False, True, False, True])
    # Pairs (new, known): 0.4 > 0.1, 0.4 = 0.4 (half), 0.8 > both.
    assert auroc(score, is_new) == pytest.approx(3.5 / 4)
    assert auroc(-score, is_new) == pytest.approx(0.5 / 4)
    assert math.isnan(auroc(score, np.ones(4, dtype=bool)))


@pytest.mark.parametrize(
    ("n_right", "n", "low", "high"), [(28, 30, 0.787, 0.982), (30, 30, 0.886, 1.0), (0, 10, 0.0, 0.278)]
)
def test_the_interval_of_a_share(n_right, n, low, high):
    # Values of Wilson's interval from R's prop.test(..., correct = FALSE).
    assert share_interval(n_right, n) == pytest.approx((low, high), abs=1e-3)


def test_no_image_says_nothing():
    assert share_interval(0, 0) == (0.0, 1.0)
