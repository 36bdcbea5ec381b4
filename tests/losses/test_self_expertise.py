from __future__ import annotations

import math

import pytest
import torch

from nngcd.losses.info_nce import info_nce
from nngcd.losses.pairs import closeness
from nngcd.losses.self_expertise import farther_than_own_cluster, radii

RADIUS_K = torch.tensor([0.5, 0.5, 1.0])


def test_radii_of_three_centres_on_a_line():
    assert radii(torch.tensor([[0.0], [1.0], [3.0]])).tolist() == RADIUS_K.tolist()
    assert radii(torch.zeros(1, 2)).tolist() == [math.inf]


def test_a_pair_counts_by_the_cluster_of_the_other_image():
    """Two images 1.5 apart, the first in cluster 0, the second in cluster 2 of those three."""
    x_vbd = torch.tensor([[[0.0], [1.5]], [[0.0], [1.5]]])
    spread_vbwc = farther_than_own_cluster(x_vbd, RADIUS_K[[0, 2]][None])
    # From image 1 both views of image 0 are far; from image 0, image 1 is within its own cluster's reach.
    assert spread_vbwc[:, 1, :, 0].tolist() == [pytest.approx([0.5, 0.5])] * 2
    assert spread_vbwc[:, 1, :, 1].abs().sum() == 0
    assert spread_vbwc[:, 0].abs().sum() == 0


def test_a_level_counts_half_of_the_finer_one_before_it():
    x_vbd = torch.tensor([[[0.0], [1.0], [3.0]]] * 2)
    levels = torch.tensor([[0.4, 0.4, 0.4], [1.2, 1.2, 1.2]])
    # From image 0: image 1 is far at the first level (1), image 2 at both (1.5); two views of each.
    spread_vbwc = farther_than_own_cluster(x_vbd, levels)
    assert spread_vbwc[0, 0].tolist() == [pytest.approx([0, 0.2, 0.3])] * 2


def test_targets_sum_to_1_and_those_of_the_authors_need_not():
    x_vbd = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0))
    radius_lb = torch.rand(2, 6, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(farther_than_own_cluster(x_vbd, radius_lb).sum((2, 3)), torch.ones(2, 6))
    assert not torch.allclose(farther_than_own_cluster(x_vbd, radius_lb, shares="other").sum((2, 3)), torch.ones(2, 6))


@pytest.mark.parametrize("smoothing", [0.1, 1.0])
def test_where_all_views_are_alike_the_target_is_no_matter(smoothing):
    spread_vbwc = torch.rand(2, 2, 2, 2, generator=torch.Generator().manual_seed(0))
    spread_vbwc *= 1 - torch.eye(4).view(2, 2, 2, 2)
    spread_vbwc /= spread_vbwc.sum((2, 3), keepdim=True)
    loss = info_nce(torch.ones(2, 2, 3), smoothing=smoothing, spread_vbwc=spread_vbwc, similarity=closeness)
    assert loss.item() == pytest.approx(math.log(3))


def test_an_even_spread_is_the_plain_smoothing():
    z_vbd = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0))
    even_vbwc = torch.full((2, 5, 2, 5), 1 / 9)
    even_vbwc *= 1 - torch.eye(10).view(2, 5, 2, 5)
    spread = info_nce(z_vbd, smoothing=0.3, spread_vbwc=even_vbwc)
    assert spread.item() == pytest.approx(info_nce(z_vbd, smoothing=0.3).item())
