from __future__ import annotations

import math

import pytest
import torch

from nngcd.losses.poincare import ball_distances, clipped, in_ball, kept_in_ball, moebius_sum, reach


def curvature(c, dtype=torch.float64):
    return torch.tensor(c, dtype=dtype)


def drawn(rng, *shape):
    return torch.from_numpy(rng.normal(size=shape))


def test_distances_of_two_points_on_a_line_are_those_of_the_textbook():
    z = torch.tensor([[[math.atanh(0.5), 0.0]], [[-math.atanh(0.5), 0.0]]], dtype=torch.float64)
    distance = ball_distances(z, curvature(1.0), clip_radius=5.0)
    assert in_ball(z, curvature(1.0))[:, 0, 0].tolist() == pytest.approx([0.5, -0.5])
    assert distance[0, 0, 1, 0].item() == pytest.approx(math.log(9))


def test_a_long_vector_is_cut_before_it_enters_the_ball():
    z = torch.tensor([[[3.0, 4.0]], [[0.0, 0.0]]], dtype=torch.float64)
    assert in_ball(clipped(z, 1.2), curvature(0.1))[0].norm().item() == pytest.approx(1.145533, abs=1e-5)
    assert ball_distances(z, curvature(0.1), clip_radius=1.2)[0, 0, 1, 0].item() == pytest.approx(2.4, abs=1e-5)


@pytest.mark.parametrize("c", [0.05, 0.1, 1.0])
def test_distances_agree_with_the_two_usual_formulas(rng, c):
    z_vbd = drawn(rng, 2, 6, 5)
    found = ball_distances(z_vbd, curvature(c), clip_radius=1.5).reshape(12, 12)
    x_nd = in_ball(clipped(z_vbd, 1.5), curvature(c)).reshape(12, 5)
    square_n = c * x_nd.square().sum(-1)
    apart_nn = c * (x_nd[:, None] - x_nd).square().sum(-1)
    by_arcosh = torch.acosh(1 + 2 * apart_nn / torch.outer(1 - square_n, 1 - square_n)) / c**0.5
    sums_nnd = torch.stack([moebius_sum(-x_nd, y_d, curvature(c)) for y_d in x_nd], dim=1)
    by_artanh = 2 / c**0.5 * torch.atanh(c**0.5 * sums_nnd.norm(dim=-1))
    is_other = ~torch.eye(12, dtype=torch.bool)
    assert torch.allclose(found[is_other], by_arcosh[is_other], rtol=1e-7)
    assert torch.allclose(found[is_other], by_artanh[is_other], rtol=1e-7)


def test_without_curvature_distances_are_twice_the_euclidean_ones(rng):
    z_vbd = drawn(rng, 2, 4, 5).float()
    found = ball_distances(z_vbd, curvature(1e-8, torch.float32), clip_radius=100.0)
    flat = 2 * torch.cdist(z_vbd.reshape(8, 5), z_vbd.reshape(8, 5)).reshape(2, 4, 2, 4)
    assert torch.allclose(found, flat, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("length", [0.0, 1e-6, 1.0, 1e6])
@pytest.mark.parametrize("c", [1e-4, 0.1, 10.0])
def test_values_and_gradients_are_finite_up_to_the_boundary(rng, length, c, dtype):
    z_vbd = (length * drawn(rng, 2, 5, 4)).to(dtype).requires_grad_()
    c = curvature(c, torch.float32).requires_grad_()
    distance = ball_distances(z_vbd, c, clip_radius=1e9)
    assert distance.dtype == torch.float32
    assert (distance <= 4 * reach(c) * 1.01).all()
    gradients = torch.autograd.grad(distance.sum(), [z_vbd, c])
    assert all(torch.isfinite(found).all() for found in (distance, *gradients))


def test_equal_points_are_no_distance_apart_and_get_no_gradient():
    z = torch.ones(2, 1, 3, requires_grad=True)
    distance = ball_distances(z, curvature(0.1, torch.float32), clip_radius=2.0)
    assert (distance == 0).all()
    assert (torch.autograd.grad(distance.sum(), z)[0] == 0).all()


def test_points_add_up_around_the_centre(rng):
    x_nd, c = 0.5 * in_ball(drawn(rng, 6, 4), curvature(1.0)), curvature(1.0)
    nothing = torch.zeros(4, dtype=torch.float64)
    assert torch.allclose(moebius_sum(x_nd, nothing, c), x_nd)
    assert torch.allclose(moebius_sum(nothing.expand(1, 4), x_nd[0], c), x_nd[:1])
    assert torch.allclose(moebius_sum(-x_nd[:1], x_nd[0], c), nothing, atol=1e-12)
    straight = torch.tensor([[0.5, 0.0]], dtype=torch.float64)
    # Along a line velocities add up so, too: (0.5 + 0.5) / (1 + 0.25).
    assert moebius_sum(straight, straight[0], c)[0].tolist() == pytest.approx([0.8, 0.0])


def test_points_beyond_the_margin_are_moved_back():
    x = torch.tensor([[0.3, 0.4], [3.0, 4.0]], dtype=torch.float64)
    assert kept_in_ball(x, curvature(1.0)).norm(dim=-1).tolist() == pytest.approx([0.5, 0.999])
