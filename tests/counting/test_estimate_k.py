from __future__ import annotations

import re
from typing import get_args

import numpy as np
import pytest

from nngcd.core.errors import ConfigError, DataError
from nngcd.counting import by_silhouette as k_by_silhouette
from nngcd.counting.estimate_k import CountingMethod, KEstimate, estimate_k


def make_blobs(seed, *, n_classes=20, n_images=30, separation=0.6, n_old=10, labelled_share=0.5, imbalance=0.0):
    rng = np.random.default_rng(seed)
    sizes = np.maximum(6, n_images * np.exp(rng.normal(size=n_classes) * imbalance)).astype(int)
    truth = np.repeat(np.arange(n_classes), sizes)
    x = rng.normal(size=(n_classes, 32))[truth] * separation + rng.normal(size=(len(truth), 32))
    is_labelled = (truth < n_old) & (rng.random(len(truth)) < labelled_share)
    return x.astype(np.float32), np.where(is_labelled, truth, -1)


def check(estimate: KEstimate):
    """What holds for every estimate."""
    ks, scores = zip(*estimate.curve, strict=True)
    assert np.isfinite(scores).all()
    assert list(ks) == sorted(set(ks))
    assert estimate.low <= estimate.k <= estimate.high
    assert scores[ks.index(estimate.k)] == max(scores)
    assert estimate.reason


@pytest.mark.parametrize(
    "blobs",
    [
        {"n_classes": 8, "n_old": 8, "n_images": 40},
        {"n_classes": 20, "separation": 1.0},
        {"n_classes": 20, "n_old": 10, "labelled_share": 0.25, "separation": 1.0},
        {"n_classes": 40, "n_old": 20, "separation": 1.0, "n_images": 20},
        {"n_classes": 30, "n_old": 15, "separation": 1.0, "imbalance": 0.5},
    ],
)
def test_number_of_blobs_is_found(blobs):
    """On average over draws within 12 %, and always within a third."""
    found = [estimate_k(*make_blobs(seed, **blobs)) for seed in range(2)]
    for estimate in found:
        check(estimate)
        assert estimate.method == "pairs"
        assert estimate.k == pytest.approx(blobs["n_classes"], rel=1 / 3)
    assert np.mean([estimate.k for estimate in found]) == pytest.approx(blobs["n_classes"], rel=0.12)


@pytest.mark.parametrize("method", ["accuracy", "hold-out", "communities", "silhouette"])
def test_the_other_ways_find_well_separated_blobs(method):
    x, y = make_blobs(0, n_classes=12, n_old=6, separation=1.5)
    calls = []
    estimate = estimate_k(x, y, method=method, progress=lambda done, total: calls.append((done, total)))
    check(estimate)
    assert estimate.method == method
    assert estimate.k == pytest.approx(12, abs=1)
    assert estimate.confidence != "good"
    assert calls[-1][0] == calls[-1][1]
    assert estimate == estimate_k(x, y, method=method)
    within = estimate_k(x, y, method=method, k_range=(8, 10))
    assert all(8 <= k <= 10 for k, _ in within.curve)


@pytest.mark.parametrize("method", ["pairs", "accuracy", "hold-out"])
def test_ways_that_need_labels_say_so(method):
    x, y = make_blobs(0)
    with pytest.raises(ConfigError, match="label more images"):
        estimate_k(x, np.full_like(y, -1), method=method)


@pytest.mark.parametrize(
    ("method", "tolerance"),
    [("pairs", 0.15), ("accuracy", 0.25), ("hold-out", 0.25), ("communities", 0.15), ("silhouette", 0.15)],
)
@pytest.mark.parametrize("n_classes", [8, 20])
def test_every_method_finds_blobs_apart(method, tolerance, n_classes):
    calls = []
    x, y = make_blobs(0, n_classes=n_classes, n_old=n_classes // 2, separation=1.5, n_images=20)
    estimate = estimate_k(x, y, method=method, progress=lambda done, total: calls.append((done, total)))
    check(estimate)
    assert estimate.method == method
    assert estimate.k == pytest.approx(n_classes, rel=tolerance)
    done, total = zip(*calls, strict=True)
    assert list(done) == sorted(set(done))
    assert set(total) == {done[-1]}


@pytest.mark.parametrize("method", ["accuracy", "hold-out", "communities", "silhouette"])
def test_every_method_keeps_the_range_and_is_deterministic(method):
    x, y = make_blobs(0, n_classes=12, n_old=6, n_images=15)
    estimate = estimate_k(x, y, method=method, k_range=(8, 11), seed=3)
    check(estimate)
    assert {k for k, _ in estimate.curve} <= set(range(8, 12))
    assert estimate == estimate_k(x, y, method=method, k_range=(8, 11), seed=3)


def test_range_above_every_level_of_neighbours_still_gives_an_estimate():
    x, y = make_blobs(0, n_classes=6, n_old=3, n_images=10)
    estimate = estimate_k(x, y, method="hold-out", k_range=(40, 44))
    check(estimate)
    assert (estimate.method, estimate.low >= 40, estimate.high <= 44) == ("silhouette", True, True)


def test_more_overlap_is_less_sure():
    sure, unsure = (estimate_k(*make_blobs(0, separation=separation)) for separation in (1.0, 0.35))
    assert sure.confidence in ("good", "fair")
    assert (sure.high - sure.low) / sure.k < (unsure.high - unsure.low) / unsure.k


def test_estimate_is_deterministic_and_blind_to_names_and_lengths():
    x, y = make_blobs(0)
    scale = np.random.default_rng(1).uniform(0.5, 2, size=(len(x), 1)).astype(np.float32)
    estimate = estimate_k(x, y)
    assert estimate == estimate_k(x, y)
    assert estimate.k == estimate_k(x * scale, np.where(y < 0, -1, 3 * y + 7)).k


def test_few_labelled_classes_are_never_called_sure():
    """They count 20 to 31 of 60 classes that lie far apart, and the bootstrap over them does not know."""
    x, y = make_blobs(0, n_classes=60, n_old=6, n_images=10, separation=3.0)
    estimate = estimate_k(x, y)
    assert estimate.confidence == "low"
    assert "only 6 classes are labelled" in estimate.reason


@pytest.mark.slow
@pytest.mark.parametrize("n_old", [0, 3])
def test_without_a_range_the_end_moves_out_until_the_best_is_inside(n_old):
    x, y = make_blobs(0, n_classes=45, n_old=n_old, n_images=10, separation=3.0)
    estimate = estimate_k(x, y)
    assert estimate.method == "silhouette"
    assert 43 <= estimate.k <= 47
    assert estimate_k(x, y, k_range=(2, 30)).k == 30


def test_no_label_still_gives_an_estimate():
    x, y = make_blobs(0, n_classes=6, separation=1.5, n_images=40)
    calls = []
    estimate = estimate_k(x, np.full_like(y, -1), progress=lambda done, total: calls.append((done, total)))
    check(estimate)
    assert (estimate.k, estimate.method, estimate.confidence) == (6, "silhouette", "low")
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert calls[-1][0] == calls[-1][1]


@pytest.mark.parametrize("n_old", [1, 2, 4])
def test_few_labelled_classes_are_not_trusted(n_old):
    estimate = estimate_k(*make_blobs(0, n_classes=6, n_old=n_old, separation=1.5))
    check(estimate)
    assert estimate.confidence == "low"
    assert estimate.k >= n_old


def test_range_is_kept_and_its_edge_is_told():
    x, y = make_blobs(0, separation=1.0)
    short, long = estimate_k(x, y, k_range=(10, 14)), estimate_k(x, y, k_range=(10, 60))
    assert (short.k, short.is_at_edge) == (14, True)
    assert not long.is_at_edge
    assert estimate_k(x, y, k_range=(40, 60)).is_at_edge
    assert estimate_k(x, y, k_range=(12, 12)).k == 12


def test_labels_that_point_out_of_the_range_are_not_contradicted():
    x, y = make_blobs(0, n_classes=12, n_old=10, separation=3.0)
    found = estimate_k(x, y, k_range=(14, 40), method="pairs")
    assert (found.k, found.confidence) == (14, "low")
    pointed = float(re.fullmatch(r"the labels point to about (\d+\.\d), outside the range", found.reason).group(1))
    assert not 14 <= pointed <= 40


def test_too_few_images_to_look_for_more_classes_are_named_as_the_reason():
    found = estimate_k(np.random.default_rng(0).normal(size=(9, 4)), np.array([0, 1, 2, 3, -1, -1, -1, -1, -1]))
    assert (found.k, found.method) == (4, "given")
    assert found.reason == "9 images are too few to look for more than 4 classes; set K if you know it"


@pytest.mark.parametrize("method", get_args(CountingMethod))
@pytest.mark.parametrize("n_rows", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("n_old", [0, 1, 2, 3])
def test_tiny_data(n_rows, n_old, method):
    x = np.random.default_rng(0).normal(size=(n_rows, 4))
    y = (
        np.where(np.arange(n_rows) < n_rows - 1, np.arange(n_rows) % max(n_old, 1), -1)
        if n_old
        else np.full(n_rows, -1)
    )
    try:
        estimate = estimate_k(x, y, method=method)
    except ConfigError as error:
        assert "label more images" in str(error)
        assert method in ("pairs", "accuracy", "hold-out")
        return
    check(estimate)
    assert 1 <= estimate.k <= n_rows


@pytest.mark.parametrize("method", get_args(CountingMethod))
def test_equal_images_give_an_estimate(method):
    check(estimate_k(np.ones((30, 4)), np.arange(30) % 5, method=method))
    check(estimate_k(np.ones((30, 4)), np.where(np.arange(30) % 2, np.arange(30) % 5, -1), method=method))


def test_equal_images_without_labels_give_an_estimate():
    check(estimate_k(np.zeros((30, 4)), np.full(30, -1)))


def test_the_interval_of_the_silhouette_is_one_standard_error_and_at_least_a_factor_of_two(monkeypatch):
    # Rows 0.1 above and below a mean that falls by 0.004 a class from 6 on: of 100 rows the error is 0.01, so 4 to 8.
    def silhouettes(mean_of):
        noise = np.tile([0.1, -0.1], 50)
        return lambda distance_nn, cluster_n: mean_of(len(np.unique(cluster_n))) + noise

    x, no_label = make_blobs(0, n_classes=10, n_images=10)[0], np.full(100, -1)
    monkeypatch.setattr(k_by_silhouette, "silhouette_of_rows", silhouettes(lambda k: 0.5 - 0.004 * abs(k - 6)))
    found = estimate_k(x, no_label, k_range=(3, 14))
    assert (found.k, found.low, found.high) == (6, 3, 12)
    monkeypatch.setattr(k_by_silhouette, "silhouette_of_rows", silhouettes(lambda k: 0.5))
    assert estimate_k(x, no_label, k_range=(3, 10)).k == 3


@pytest.mark.parametrize("method", ["auto", "pairs", "accuracy", "hold-out", "silhouette"])
def test_of_many_images_a_sample_is_looked_at(method, monkeypatch):
    monkeypatch.setattr("nngcd.counting.estimate_k.MAX_ROWS", 300)
    x, y = make_blobs(0, n_classes=12, n_old=6, separation=1.5, n_images=40)
    check(estimate_k(x, y, method=method))
    assert estimate_k(x, y, method=method, k_range=(10, 480)).k >= 10
    with pytest.raises(ConfigError, match=r"must begin at 300 or below: only so many of the 480 images"):
        estimate_k(x, y, method=method, k_range=(400, 480))


@pytest.mark.needs("infomap")
def test_mistakes_are_named():
    x, y = make_blobs(0)
    with pytest.raises(ConfigError, match="at least 10, the number of labelled classes"):
        estimate_k(x, y, k_range=(2, 8))
    with pytest.raises(ConfigError, match="fewest"):
        estimate_k(x, y, k_range=(9, 8))
    with pytest.raises(ConfigError, match="Did you mean 'hold-out'"):
        estimate_k(x, y, method="holdout")
    with pytest.raises(ConfigError, match=r"auto, pairs, accuracy, hold-out, communities, silhouette.*mean 'pairs'"):
        estimate_k(x, y, method="pair")
    with pytest.raises(ConfigError, match="needs 3 classes with 2 labelled images each, got 2"):
        estimate_k(x, np.where(y < 2, y, -1), method="pairs")
    with pytest.raises(DataError, match="integers"):
        estimate_k(x, y[:-1])
    for method in get_args(CountingMethod):
        with pytest.raises(DataError, match="NaN"):
            estimate_k(np.where(np.arange(len(x))[:, None] == 3, np.nan, x), y, method=method)


def test_what_is_no_seed_and_no_method_is_refused():
    with pytest.raises(ConfigError, match=r"^seed = 1\.5: must be a whole number"):
        estimate_k(np.eye(4), np.full(4, -1), seed=1.5)
    with pytest.raises(ConfigError, match=r"^method = None: must be one of auto"):
        estimate_k(np.eye(4), np.full(4, -1), method=None)


def test_a_range_of_which_labels_leave_one_number_says_so():
    found = estimate_k(np.eye(6), np.array([0, 1, 2, 0, 1, 2]), k_range=(1, 3))
    assert (found.k, found.reason) == (3, "the range allows only one number; labelled classes: 3, images: 6")
