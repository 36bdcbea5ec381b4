from __future__ import annotations

import numpy as np
import pytest

from nngcd.clustering.k_by_pairs import count_pairs, same_class_share, size_spread


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
