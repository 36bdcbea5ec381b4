"""The Poincare ball: vectors become points of a hyperbolic space, where distances grow towards the boundary.

The space has curvature -c and the ball radius 1 / sqrt(c). All formulas stay exact and finite in float32 up to the
boundary: distances come from sinh instead of artanh, which has no digits left there.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nngcd.losses.pairs import distances

MARGIN = 1e-3
"""Share of the radius that points keep away from the boundary, which is infinitely far from everything (HypCD)."""
NO_LENGTH = 1e-5
"""Shorter vectors enter the ball unchanged: tanh(a) / a is 1 there, to the last digit of float32."""


def clipped(x_vbd: Tensor, radius: Tensor | float) -> Tensor:
    """Return the vectors, those longer than the radius cut to it; in float32 where they came in half precision."""
    x_vbd = x_vbd.float() if x_vbd.dtype in (torch.float16, torch.bfloat16) else x_vbd
    norm_vb1: Tensor = torch.linalg.vector_norm(x_vbd, dim=-1, keepdim=True)
    return x_vbd * (radius / norm_vb1.clamp_min(torch.finfo(x_vbd.dtype).tiny)).clamp_max(1.0)


def reach(curvature: Tensor) -> Tensor:
    """Return the length of a vector that enters the ball just within the margin of its boundary."""
    return math.atanh(1 - MARGIN) / curvature.sqrt()


def in_ball(u_vbd: Tensor, curvature: Tensor) -> Tensor:
    """Return the points that lie in the vectors' directions from the centre, at twice their lengths: exp_0."""
    a_vb1: Tensor = (curvature.sqrt() * torch.linalg.vector_norm(u_vbd, dim=-1, keepdim=True)).clamp_min(NO_LENGTH)
    return torch.tanh(a_vb1) / a_vb1 * u_vbd


def ball_distances(z_vbd: Tensor, curvature: Tensor, *, clip_radius: float) -> Tensor:
    """Return distance_vbwc: how far apart the vectors' points are in the ball; 2 |z - z'| without curvature.

    Equal points are 0 apart, without a gradient. One matrix product; see `pairs.distances` for what that costs.

    Args:
        z_vbd: the vectors, cut to the clip radius and then put in the ball.
        curvature: c > 0.
        clip_radius: the greatest length of a vector.
    """
    u_vbd = clipped(z_vbd, reach(curvature).clamp_max(clip_radius))
    # 1 - c |x|^2 is 1 / cosh^2 of the length before the ball, which loses no digits at the boundary.
    stretch_vb = torch.cosh(curvature.sqrt() * torch.linalg.vector_norm(u_vbd, dim=-1))
    return _stretched(distances(in_ball(u_vbd, curvature)), stretch_vb, curvature)


def point_distances(x_vbd: Tensor, curvature: Tensor) -> Tensor:
    """Return distance_vbwc: how far apart points of the ball are, which keep away from its boundary by the margin."""
    square_vb = curvature * x_vbd.square().sum(-1)
    return _stretched(distances(x_vbd), (1 - square_vb).clamp_min(MARGIN).rsqrt(), curvature)


def _stretched(straight_vbwc: Tensor, stretch_vb: Tensor, curvature: Tensor) -> Tensor:
    root = curvature.sqrt()
    return 2 / root * torch.asinh(root * straight_vbwc * stretch_vb[:, :, None, None] * stretch_vb)


def moebius_sum(x_vbd: Tensor, y_d: Tensor, curvature: Tensor) -> Tensor:
    """Return x + y as points of the ball add up: the ball moved so that its centre comes to x, where y then is."""
    product_vb1 = curvature * (x_vbd * y_d).sum(-1, keepdim=True)
    x_square_vb1, y_square = curvature * x_vbd.square().sum(-1, keepdim=True), curvature * y_d.square().sum(-1)
    sum_vbd = (1 + 2 * product_vb1 + y_square) * x_vbd + (1 - x_square_vb1) * y_d
    # At least the square of 1 - c |x| |y|: 4e-6 within the margin.
    return sum_vbd / (1 + 2 * product_vb1 + x_square_vb1 * y_square).clamp_min(MARGIN**2)


def kept_in_ball(x_vbd: Tensor, curvature: Tensor) -> Tensor:
    """Return points with those beyond the margin of the boundary moved back to it."""
    return clipped(x_vbd, (1 - MARGIN) / curvature.sqrt())
