import doctest
from itertools import permutations
from math import isnan

import numpy as np
import pytest

from nngcd.metrics import by_name
from nngcd.metrics.accuracy import Accuracy, split_accuracy
from nngcd.metrics.by_name import Called, by_name_accuracy, called_known, called_new

N_OLD = 3


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_the_example_of_the_docstring_holds():
    assert doctest.testmod(by_name).failed == 0
    truth, cluster = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 1, 0, 0, 1])
    assert split_accuracy(truth, cluster, truth == 0).all == 4 / 6
    assert called_known(truth, cluster, 1) == Called(share=1 / 2, true_share=1 / 2, precision=1 / 3, recall=1 / 3)


def test_known_and_new_by_hand():
    # Classes 0 and 1 are old, 2 and 3 new. Clusters 0 and 1 are theirs by name; 4 stands for 2 and 2 for 3.
    truth = np.array([0, 0, 1, 1, 1, 2, 2, 2, 3, 3])
    cluster = np.array([0, 1, 1, 1, 4, 4, 4, 0, 2, 4])
    assert by_name_accuracy(truth, cluster, 2) == Accuracy(6 / 10, 3 / 5, 3 / 5)
    assert called_known(truth, cluster, 2) == Called(share=5 / 10, true_share=5 / 10, precision=4 / 5, recall=4 / 5)
    assert called_new(truth, cluster, 2) == Called(share=5 / 10, true_share=5 / 10, precision=4 / 5, recall=4 / 5)


@pytest.mark.parametrize(("n_clusters", "n_classes"), [(6, 6), (8, 5), (5, 7), (3, 6), (6, 3)])
def test_by_name_agrees_with_trying_every_naming_of_the_new_clusters(rng, n_clusters, n_classes):
    for _ in range(10):
        truth, cluster = rng.integers(0, n_classes, 40), rng.integers(0, n_clusters, 40)
        others = range(N_OLD, max(n_clusters, n_classes))
        namings = [np.array([*range(N_OLD), *naming]) for naming in permutations(others)]
        assert by_name_accuracy(truth, cluster, N_OLD).all == max(
            (naming[cluster] == truth).mean() for naming in namings
        )


def test_renaming_new_clusters_changes_nothing_and_renaming_known_ones_does(rng):
    for _ in range(50):
        truth, cluster = rng.integers(0, 6, 30), rng.integers(0, 8, 30)
        renamed = np.array([0, 1, 2, *(N_OLD + rng.permutation(9))])[cluster]
        for score in (by_name_accuracy, called_known, called_new):
            assert score(truth, renamed, N_OLD) == score(truth, cluster, N_OLD)
    truth = np.array([0, 1, 2, 3])
    assert by_name_accuracy(truth, truth, N_OLD).old == 1.0
    assert by_name_accuracy(truth, np.array([1, 0, 2, 3]), N_OLD).old == 1 / 3


def test_by_name_is_never_above_one_match_over_all(rng):
    for n_clusters in (2, 5, 9):
        for _ in range(50):
            truth, cluster = rng.integers(0, 6, 25), rng.integers(0, n_clusters, 25)
            assert by_name_accuracy(truth, cluster, N_OLD).all <= split_accuracy(truth, cluster, truth < N_OLD).all


def test_a_new_cluster_full_of_an_old_class_is_wrong():
    truth, cluster = np.array([0, 0, 0, 1]), np.array([1, 1, 1, 1])
    assert by_name_accuracy(truth, cluster, 1) == Accuracy(1 / 4, 0.0, 1.0)


def test_where_nothing_is_called_new_no_new_image_is_right():
    truth, cluster = np.array([0, 1, 2]), np.array([0, 0, 0])
    assert by_name_accuracy(truth, cluster, 1) == Accuracy(1 / 3, 1.0, 0.0)
    new = called_new(truth, cluster, 1)
    assert (new.share, new.recall) == (0.0, 0.0)
    assert isnan(new.precision)


def test_an_empty_set_has_no_share():
    truth = np.array([0, 1, 1])
    no_old = by_name_accuracy(truth, truth, 0)
    assert (no_old.all, no_old.new) == (1.0, 1.0)
    assert isnan(no_old.old)
    no_new = by_name_accuracy(truth, truth, 2)
    assert (no_new.all, no_new.old) == (1.0, 1.0)
    assert isnan(no_new.new)
    assert isnan(called_known(truth, truth, 0).recall)
    assert isnan(by_name_accuracy([], [], 2).all)
    assert isnan(called_known([], [], 2).share)


@pytest.mark.parametrize("score", [by_name_accuracy, called_known, called_new])
def test_bad_input_is_named(score):
    with pytest.raises(ValueError, match="truth has 2, cluster has 1"):
        score([0, 1], [0], 1)
    with pytest.raises(ValueError, match="cluster must not hold negative ids"):
        score([0, 1], [0, -1], 1)
