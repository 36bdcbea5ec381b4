from __future__ import annotations

import math

import pytest
import torch

from nngcd.losses.mean_shift import decoupled_contrast, shifted


def test_half_of_the_way_to_the_neighbours_with_the_length_as_a_constant():
    z_d = torch.tensor([1.0, 0.0], requires_grad=True)
    moved_vbd = shifted(z_d.expand(1, 1, 2), torch.tensor([[[0.0, 1.0]]]), step=0.5)
    assert moved_vbd.flatten().tolist() == pytest.approx([math.sqrt(0.5)] * 2)
    # A half over the length, sqrt(1/2); a length that learns would take out what points along the vector.
    gradient_d = torch.autograd.grad(moved_vbd.sum(), z_d)[0]
    assert gradient_d.tolist() == pytest.approx([math.sqrt(0.5)] * 2)


def test_vectors_that_cancel_out_stay_finite():
    z_vbd = torch.tensor([[[1.0, 0.0]]], requires_grad=True)
    moved_vbd = shifted(z_vbd, -z_vbd.detach(), step=0.5)
    moved_vbd.sum().backward()
    assert moved_vbd.abs().sum() == 0
    assert z_vbd.grad.isfinite().all()


def test_the_positive_is_not_in_the_denominator():
    z_vbd = torch.eye(2).expand(2, 2, 2)
    assert decoupled_contrast(z_vbd, temperature=0.25).item() == pytest.approx(-4 + math.log(2))
    assert decoupled_contrast(z_vbd[:, :1], temperature=0.25).item() == 0
