import numpy as np
import pytest

from nngcd.results.map import unit
from nngcd.review.page.places import places


def groups(n, *, n_groups=4, n_features=8):
    rng = np.random.default_rng(0)
    group_n = rng.integers(0, n_groups, n)
    centre_kd = np.eye(n_features)[:n_groups]
    return unit(centre_kd[group_n] + 0.1 * rng.normal(size=(n, n_features))).astype(np.float16), group_n


def test_similar_images_are_near_each_other():
    unit_nd, group_n = groups(400)
    places_n2 = places(unit_nd)
    assert places_n2.shape == (400, 2) and 0 <= places_n2.min() and places_n2.max() <= 1
    distance_nn = np.linalg.norm(places_n2[:, None] - places_n2[None], axis=2)
    np.fill_diagonal(distance_nn, np.inf)
    assert (group_n[distance_nn.argmin(axis=1)] == group_n).mean() > 0.95
    assert len(np.unique(places_n2, axis=0)) > 390  # a cloud, not a stack of points
    assert np.array_equal(places_n2, places(unit_nd))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_a_few_images_have_places_too(n):
    assert np.isfinite(places(groups(n)[0])).all()


def test_images_that_are_all_the_same_have_places():
    unit_nd = np.tile(np.array([[1.0, 0.0, 0.0]], dtype=np.float16), (20, 1))
    assert np.isfinite(places(unit_nd)).all()
