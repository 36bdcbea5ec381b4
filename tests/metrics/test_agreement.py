from math import comb, isnan, log

import numpy as np
import pytest

from nngcd.metrics.agreement import adjusted_rand_index, normalized_mutual_information

FORMS = (normalized_mutual_information, adjusted_rand_index)
TRUTH, CLUSTER = [0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1]


def test_mutual_information_by_hand():
    # Cells 3, 1 | 0, 2 of 6 images; both classes have 3, the clusters have 4 and 2.
    mutual = 3 / 6 * log(3 * 6 / (4 * 3)) + 1 / 6 * log(1 * 6 / (4 * 3)) + 2 / 6 * log(2 * 6 / (2 * 3))
    entropies = log(2), -(4 / 6 * log(4 / 6) + 2 / 6 * log(2 / 6))
    assert normalized_mutual_information(TRUTH, CLUSTER) == pytest.approx(mutual / np.mean(entropies))


def test_rand_index_by_hand():
    together = comb(3, 2) + comb(1, 2) + comb(2, 2)
    in_cluster, in_class = comb(4, 2) + comb(2, 2), 2 * comb(3, 2)
    chance = in_cluster * in_class / comb(6, 2)
    assert adjusted_rand_index(TRUTH, CLUSTER) == pytest.approx(
        (together - chance) / ((in_cluster + in_class) / 2 - chance)
    )


@pytest.mark.parametrize("form", FORMS)
def test_perfect_is_1_and_nothing_is_nan(form):
    assert form([0, 0, 1, 2], [3, 3, 0, 1]) == pytest.approx(1.0)
    assert isnan(form([], []))


@pytest.mark.parametrize("form", FORMS)
def test_bad_input_is_named(form):
    with pytest.raises(ValueError, match="cluster has 1"):
        form([0, 1], [0])
    with pytest.raises(ValueError, match="cluster must not hold negative ids"):
        form([0, 1], [0, -1])
