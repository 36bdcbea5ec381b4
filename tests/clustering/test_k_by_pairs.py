from __future__ import annotations

import numpy as np
import pytest

from nngcd.clustering.estimate_k import estimate_k
from nngcd.clustering.k_by_pairs import count_pairs, evidence_of_pairs, same_class_share, size_spread
from nngcd.clustering.k_scores import bootstrap_draws


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


def test_evidence_of_perfect_clusters_by_hand():
    # Five classes of 2, four of them labelled: 5 of 45 pairs are of one class; with the 10 pairs of an image and itself
    # that is 1 / 9 + 8 / 9 * 1 / 10 = 1 / 5.
    cluster_n = np.repeat(np.arange(5), 2)
    pairs = count_pairs(cluster_n, np.where(cluster_n < 4, cluster_n, -1))
    evidence = evidence_of_pairs([pairs], np.full(4, 2.0), 10, np.random.default_rng(0))
    assert evidence.share == pytest.approx(1 / 5)
    assert evidence.error == pytest.approx(0, abs=1e-12)


def test_the_error_is_that_of_the_bootstrap_over_classes_corrected_for_their_number():
    # One clustering, so that there is no chance between clusterings; classes of one size, so that spread is 1.
    class_n = np.repeat(np.arange(6), 8)
    cluster_n = np.where(np.arange(48) % 8 < np.array([8, 7, 6, 8, 5, 7])[class_n], class_n, 6)
    pairs, n_images_c = count_pairs(cluster_n, class_n), np.full(6, 8.0)
    draws = bootstrap_draws(6, np.random.default_rng(3))
    shares = np.array([same_class_share(pairs, n_images_c, times_c) for times_c in draws])
    expected = (shares + (1 - shares) / 48)[1:].std() * (6 / 5) ** 0.5
    evidence = evidence_of_pairs([pairs], n_images_c, 48, np.random.default_rng(3))
    assert evidence.error == pytest.approx(expected)
    assert evidence.share == pytest.approx(shares[0] + (1 - shares[0]) / 48)


def test_what_fine_clusterings_say_otherwise_is_a_part_of_the_error():
    # Eight classes of 4, four of them labelled and in clusters of their own. The others are merged two by two in the
    # coarse clustering: J = (4 * 12 + 2 * 56) / 992 = 160 / 992; in the fine one J = 96 / 992; R = 1 and Q = 0 in both.
    truth_n = np.repeat(np.arange(8), 4)
    label_n = np.where(truth_n < 4, truth_n, -1)
    coarse, fine = (count_pairs(np.array(home_c)[truth_n], label_n) for home_c in ([0, 1, 2, 3, 4, 4, 5, 5], range(8)))
    assert (coarse.n_clusters, fine.n_clusters) == (6, 8)
    evidence = evidence_of_pairs([coarse, fine], np.full(4, 4.0), 32, np.random.default_rng(0))
    # Equal weights: the mean is off by d / 2 from both, of which chance is d^2 / 8; the fine one has 1 / s clusters.
    d = 64 / 992
    assert evidence.share == pytest.approx(128 / 992 + (1 - 128 / 992) / 32)
    assert evidence.error == pytest.approx((d**2 / 8 + d**2 / 4) ** 0.5)


@pytest.mark.slow
def test_intervals_of_blobs_far_apart_hold_their_number():
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        truth = np.repeat(np.arange(60), 30)
        x = 1.5 * rng.normal(size=(60, 32))[truth] + rng.normal(size=(1800, 32))
        y = np.where((truth < 12) & (rng.random(1800) < 0.5), truth, -1)
        found.append(estimate_k(x, y, method="pairs"))
    # One standard error to either side: two of three, and of so few draws at least half.
    assert sum(each.low <= 60 <= each.high for each in found) >= 5


def test_spread_of_equal_classes_is_one_and_of_sampled_ones_nearly():
    assert size_spread(np.full(8, 5.0), np.ones(8), n_images=80, share=1 / 16) == 1
    counts = np.random.default_rng(0).binomial(40, 0.25, 500).astype(float)
    assert size_spread(counts, np.ones(500), n_images=40_000, share=1 / 1000) == pytest.approx(1, abs=0.02)
