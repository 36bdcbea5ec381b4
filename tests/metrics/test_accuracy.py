import doctest
from itertools import permutations
from math import isnan

import numpy as np
import pytest

from nngcd.metrics import accuracy
from nngcd.metrics.accuracy import Accuracy, balanced_accuracy, split_accuracy, split_accuracy_v1

FORMS = (split_accuracy, split_accuracy_v1, balanced_accuracy)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def namings(truth, cluster):
    """Whether each image is right, for every one-to-one naming of clusters that gets the most images right."""
    size = int(max(truth.max(), cluster.max())) + 1
    rights = [np.array(naming)[cluster] == truth for naming in permutations(range(size))]
    most = max(int(right.sum()) for right in rights)
    return [right for right in rights if right.sum() == most]


def class_mean(right, truth):
    return np.mean([right[truth == c].mean() for c in np.unique(truth)])


def test_the_example_of_the_docstring_holds():
    assert doctest.testmod(accuracy).failed == 0
    truth, cluster = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 0, 0, 0, 1])
    assert split_accuracy_v1(truth, cluster, truth == 0) == Accuracy(5 / 6, 1.0, 2 / 3)


def test_balanced_accuracy_by_hand():
    # Class 0: 4 images, 3 right; class 1: 1 image, right; class 2 (new): 2 images, 1 right.
    truth = np.array([0, 0, 0, 0, 1, 2, 2])
    cluster = np.array([1, 1, 1, 2, 0, 2, 0])
    is_old = truth < 2
    assert split_accuracy(truth, cluster, is_old) == Accuracy(5 / 7, 4 / 5, 1 / 2)
    balanced = balanced_accuracy(truth, cluster, is_old)
    assert balanced.all == pytest.approx((3 / 4 + 1 + 1 / 2) / 3)
    assert balanced.old == pytest.approx((3 / 4 + 1) / 2)
    assert balanced.new == pytest.approx(1 / 2)


@pytest.mark.parametrize(("n_clusters", "n_classes"), [(2, 2), (5, 3), (3, 5), (6, 6), (6, 2)])
def test_accuracies_agree_with_trying_every_naming(rng, n_clusters, n_classes):
    for _ in range(10):
        truth, cluster = rng.integers(0, n_classes, 40), rng.integers(0, n_clusters, 40)
        is_old = truth < (n_classes + 1) // 2
        best = namings(truth, cluster)
        v2, v1, balanced = (form(truth, cluster, is_old) for form in FORMS)
        # Equally good namings may differ in what they get right; ours must be one of them.
        assert any(
            (v2.all, v2.old, v2.new) == (right.mean(), right[is_old].mean(), right[~is_old].mean())
            and balanced.all == pytest.approx(class_mean(right, truth))
            and balanced.new == pytest.approx(class_mean(right[~is_old], truth[~is_old]))
            for right in best
        )
        assert v1.old == namings(truth[is_old], cluster[is_old])[0].mean()
        assert v1.new == namings(truth[~is_old], cluster[~is_old])[0].mean()


def test_v1_is_never_below_v2(rng):
    for n_clusters in (2, 5, 9):
        truth, cluster = rng.integers(0, 6, 60), rng.integers(0, n_clusters, 60)
        v1, v2 = split_accuracy_v1(truth, cluster, truth < 3), split_accuracy(truth, cluster, truth < 3)
        assert v1.all >= v2.all
        assert v1.old >= v2.old
        assert v1.new >= v2.new


@pytest.mark.parametrize("form", FORMS)
def test_renaming_clusters_changes_no_accuracy(rng, form):
    for _ in range(200):  # few images: most of these have ties between best matchings
        truth, cluster = rng.integers(0, 5, 15), rng.integers(0, 7, 15)
        renamed = rng.permutation(20)[cluster]
        assert repr(form(truth, cluster, truth < 3)) == repr(form(truth, renamed, truth < 3))


@pytest.mark.parametrize("form", [split_accuracy, split_accuracy_v1])
@pytest.mark.parametrize(("n_images", "n_clusters", "n_classes"), [(12, 6, 6), (20, 9, 6), (20, 5, 8), (60, 12, 12)])
def test_renumbering_classes_and_clusters_changes_no_accuracy_on_a_tie(rng, form, n_images, n_clusters, n_classes):
    """Cells of a few images: of such tables most have several best matchings, with other shares of old images."""
    for _ in range(50):
        truth, cluster = rng.integers(0, n_classes, n_images), rng.integers(0, n_clusters, n_images)
        is_old = truth < n_classes // 2
        found = form(truth, cluster, is_old)
        for _ in range(5):
            other = rng.permutation(n_classes)[truth], rng.permutation(n_clusters)[cluster], is_old
            assert repr(form(*other)) == repr(found)


def test_of_equal_matchings_the_one_with_the_most_old_images_right_counts(rng):
    n_ties = 0
    for _ in range(50):
        truth, cluster = rng.integers(0, 5, 15), rng.integers(0, 5, 15)
        is_old = truth < 2
        n_old_right = [int(right[is_old].sum()) for right in namings(truth, cluster)]
        n_ties += len(set(n_old_right)) > 1
        assert split_accuracy(truth, cluster, is_old).old == max(n_old_right) / is_old.sum()
    assert n_ties > 10


@pytest.mark.parametrize("form", FORMS)
def test_the_order_of_images_changes_no_accuracy(rng, form):
    truth, cluster, order = rng.integers(0, 5, 50), rng.integers(0, 7, 50), rng.permutation(50)
    assert form(truth, cluster, truth < 3) == form(truth[order], cluster[order], truth[order] < 3)


@pytest.mark.parametrize("form", FORMS)
def test_perfect_clusters_are_perfect_under_any_name(rng, form):
    truth = rng.integers(0, 5, 50)
    assert form(truth, np.array([7, 0, 3, 1, 2])[truth], truth < 3) == Accuracy(1.0, 1.0, 1.0)


@pytest.mark.parametrize("form", FORMS)
def test_an_empty_set_has_no_accuracy(form):
    truth = np.array([0, 0, 1])
    no_new, no_old = form(truth, truth, truth >= 0), form(truth, truth, truth < 0)
    assert (no_new.all, no_new.old) == (1.0, 1.0)
    assert isnan(no_new.new)
    assert (no_old.all, no_old.new) == (1.0, 1.0)
    assert isnan(no_old.old)
    nothing = form([], [], [])
    assert isnan(nothing.all) and isnan(nothing.old) and isnan(nothing.new)


def test_more_clusters_than_classes_leave_the_surplus_wrong():
    truth, cluster = np.array([0, 0, 0, 1, 1]), np.array([0, 0, 1, 2, 3])
    assert split_accuracy(truth, cluster, truth == 0) == Accuracy(3 / 5, 2 / 3, 1 / 2)


def test_one_cluster_is_right_for_the_largest_class():
    truth = np.array([0, 1, 1, 2])
    assert split_accuracy(truth, np.zeros(4, dtype=int), truth == 0) == Accuracy(1 / 2, 0.0, 2 / 3)


def test_is_old_may_be_0_and_1():
    assert split_accuracy([0, 1], [0, 0], [1, 0]).old == split_accuracy([0, 1], [0, 0], [True, False]).old


@pytest.mark.parametrize(
    ("truth", "cluster", "is_old", "message"),
    [
        ([0, 1], [0, 1], [True], "truth has 2, cluster has 2, is_old has 1"),
        ([0, 1], [0], [True, True], "cluster has 1"),
        ([0, -1], [0, 1], [True, True], "truth must not hold negative ids, got -1"),
        ([0, 1], [0, -2], [True, True], "cluster must not hold negative ids, got -2"),
        ([0, 1], [0, 1], [[True, True]], "is_old must have one axis"),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_bad_input_is_named(form, truth, cluster, is_old, message):
    with pytest.raises(ValueError, match=message):
        form(truth, cluster, is_old)
