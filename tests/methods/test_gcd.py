from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from nngcd.clustering.semi_supervised_kmeans import SemiSupervisedKMeans
from nngcd.core.errors import ConfigError
from nngcd.losses.info_nce import info_nce
from nngcd.losses.supcon import supcon
from nngcd.methods import gcd

SMALL_HEAD = {"n_hidden": 12, "n_projection": 8, "n_directions": 0}


def test_the_terms_are_both_contrasts_with_their_weights(task, two_views):
    method = gcd.Method(gcd.Config(**SMALL_HEAD, supervised_weight=0.25), task)
    terms = method.loss(two_views)
    z_vbd = method.head(two_views.features_vbd)
    assert terms["contrast"].item() == pytest.approx(0.75 * info_nce(z_vbd, temperature=1.0).item())
    assert terms["supcon"].item() == pytest.approx(0.25 * supcon(z_vbd, two_views.labels_b, temperature=0.07).item())


def test_directions_are_cosines_with_the_projection(task, two_views):
    method = gcd.Method(gcd.Config(**SMALL_HEAD | {"n_directions": 40}), task)
    seen = method.head(two_views.features_vbd)
    assert seen.shape == (2, 10, 40)
    assert seen.abs().max() <= 1 + 1e-6
    projection = method.head.projection(two_views.features_vbd)
    expected = F.cosine_similarity(projection[1, 3], method.head.directions.weight[7], dim=-1)
    assert seen[1, 3, 7].item() == pytest.approx(expected.item(), abs=1e-6)


@pytest.mark.parametrize("start", ["matched", "published"])
def test_settling_is_semi_supervised_k_means_of_unit_features(blob_task, blob_overview, start):
    method = gcd.Method(gcd.Config(**SMALL_HEAD, cluster_start=start, n_starts=3), blob_task)
    assert method.settle(blob_overview) is None
    k_means = SemiSupervisedKMeans(6, init=start, n_init=3, random_state=blob_overview.seed)
    k_means.fit(F.normalize(blob_overview.features_nd, dim=-1), blob_overview.labels_n)
    is_free = blob_overview.labels_n < 0
    cluster_n = method.assign(blob_overview.features_nd).argmax(-1)
    assert torch.equal(cluster_n[is_free], k_means.labels_[is_free])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("supervised_weight", 1.5),
        ("supcon_temperature", 0.0),
        ("n_directions", -1),
        ("n_starts", 0),
        ("temperature", 0),
    ],
)
def test_impossible_settings_are_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        gcd.Config(**{name: value})
