from __future__ import annotations

import numpy as np
import pytest

from nngcd.clustering.estimate_k import KEstimate, estimate_k
from nngcd.clustering.k_scores import count_pairs, same_class_share, size_spread
from nngcd.core.errors import ConfigError, DataError


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


def test_share_of_pairs_by_hand():
    # Classes of 2: the labelled 0, 1 and the unlabelled 2. Clusters {0, 0}, {1, 1}, {2, 2}: R = 1, Q = 0, J = 3 / 15.
    pairs = count_pairs(np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0, 1, 1, -1, -1]))
    assert pairs.joined == pytest.approx(3 / 15)
    assert same_class_share(pairs, np.array([2.0, 2.0]), np.ones(2)) == pytest.approx(3 / 15)


def test_share_of_pairs_does_not_need_clusters_that_are_classes():
    # 30 clusters, each the home of two of the 60 classes; three in ten images are in a random cluster.
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(60), 40)
    cluster = np.where(rng.random(2400) < 0.7, truth // 2, rng.integers(0, 30, 2400))
    shares = []
    for _ in range(100):
        old = rng.permutation(60)[:30]
        label_c = np.full(60, -1)
        label_c[old] = np.arange(30)
        shares.append(same_class_share(count_pairs(cluster, label_c[truth]), np.full(30, 40.0), np.ones(30)))
    assert 1 / np.mean(shares) == pytest.approx(2399 / 39, rel=0.05)


def test_spread_of_equal_classes_is_one_and_of_sampled_ones_nearly():
    assert size_spread(np.full(8, 5.0), np.ones(8), n_images=80, share=1 / 16) == 1
    counts = np.random.default_rng(0).binomial(40, 0.25, 500).astype(float)
    assert size_spread(counts, np.ones(500), n_images=40_000, share=1 / 1000) == pytest.approx(1, abs=0.02)


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


def test_no_label_still_gives_an_estimate():
    x, y = make_blobs(0, n_classes=6, separation=1.5, n_images=40)
    calls = []
    estimate = estimate_k(x, np.full_like(y, -1), progress=lambda done, total: calls.append((done, total)))
    check(estimate)
    assert (estimate.k, estimate.method, estimate.confidence) == (6, "silhouette", "low")
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert calls[-1][0] == calls[-1][1]


@pytest.mark.parametrize("n_old", [1, 2])
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


@pytest.mark.parametrize("n_rows", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("n_old", [0, 1, 3])
def test_tiny_data(n_rows, n_old):
    x = np.random.default_rng(0).normal(size=(n_rows, 4))
    y = (
        np.where(np.arange(n_rows) < n_rows - 1, np.arange(n_rows) % max(n_old, 1), -1)
        if n_old
        else np.full(n_rows, -1)
    )
    estimate = estimate_k(x, y)
    check(estimate)
    assert 1 <= estimate.k <= n_rows


def test_equal_images_give_an_estimate():
    check(estimate_k(np.ones((30, 4)), np.arange(30) % 5))
    check(estimate_k(np.zeros((30, 4)), np.full(30, -1)))


def test_mistakes_are_named():
    x, y = make_blobs(0)
    with pytest.raises(ConfigError, match="10 labelled classes"):
        estimate_k(x, y, k_range=(2, 8))
    with pytest.raises(ConfigError, match="fewest"):
        estimate_k(x, y, k_range=(9, 8))
    with pytest.raises(DataError, match="integers"):
        estimate_k(x, y[:-1])
    with pytest.raises(DataError, match="NaN"):
        estimate_k(np.where(np.arange(len(x))[:, None] == 3, np.nan, x), y)
