import numpy as np
import pytest
import torch

from nngcd.review.page.places import places
from nngcd.review.page.unit_features import UnitFeatures


def groups(n, *, n_groups=4, n_features=8):
    rng = np.random.default_rng(0)
    group_n = rng.integers(0, n_groups, n)
    centre_kd = np.eye(n_features)[:n_groups]
    return UnitFeatures(torch.from_numpy(centre_kd[group_n] + 0.1 * rng.normal(size=(n, n_features))).half()), group_n


def test_similar_images_are_near_each_other():
    features, group_n = groups(400)
    places_n2 = places(features)
    assert places_n2.shape == (400, 2) and 0 <= places_n2.min() and places_n2.max() <= 1
    distance_nn = np.linalg.norm(places_n2[:, None] - places_n2[None], axis=2)
    np.fill_diagonal(distance_nn, np.inf)
    assert (group_n[distance_nn.argmin(axis=1)] == group_n).mean() > 0.95
    assert len(np.unique(places_n2, axis=0)) > 390  # a cloud, not a stack of points
    assert np.array_equal(places_n2, places(features))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_a_few_images_have_places_too(n):
    assert np.isfinite(places(groups(n)[0])).all()


def test_images_that_are_all_the_same_have_places():
    features = UnitFeatures(torch.tensor([[1.0, 0.0, 0.0]]).repeat(20, 1))
    assert np.isfinite(places(features)).all()
