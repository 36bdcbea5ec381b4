from __future__ import annotations

import numpy as np
import pytest
import torch

from nngcd.clustering.whitening import main_directions
from nngcd.counting.known_share import known_share, make_folds


def test_folds_hide_every_class_once_and_keep_what_they_need():
    class_n = np.array([0] * 7 + [1] * 2 + [2] * 3 + [3] * 4 + [-1] * 5)
    folds = list(make_folds(class_n, np.random.default_rng(0)))
    assert np.array([fold.is_hidden_c for fold in folds]).sum(0).tolist() == [1, 1, 1, 1]
    for fold in folds:
        parts = np.array([fold.is_hidden_n, fold.is_held_back_n, fold.is_seen_n])
        assert (parts.sum(0) == (class_n >= 0)).all()
        known = np.flatnonzero(~fold.is_hidden_c)
        for part in (fold.is_held_back_n, fold.is_seen_n):
            assert set(class_n[part]) == set(known)


@pytest.mark.parametrize("n_old", [8, 15, 20])
def test_share_of_a_class_is_found(n_old):
    shares = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        truth = np.repeat(np.arange(20), 30)
        x = 0.8 * rng.normal(size=(20, 64))[truth] + rng.normal(size=(600, 64))
        label = np.where((truth < n_old) & (np.arange(600) % 30 < 10), truth, -1)
        found = known_share(main_directions(torch.from_numpy(x)).float(), label, rng)
        shares.append(found.share)
        assert found.error_of_new > 0
        assert found.error_of_old > 0
    assert np.mean(shares) == pytest.approx(1 / 20, rel=0.15)


def test_images_that_all_look_the_same_tell_nothing():
    label = np.where(np.arange(30) < 20, np.arange(30) % 5, -1)
    assert known_share(torch.ones(30, 4), label, np.random.default_rng(0)) is None
