import math

import pytest
import torch

from nngcd.losses.neighbours import neighbour_cross_entropy

SHARP = {"student_temperature": 1.0, "teacher_temperature": 1.0}


def test_the_value_by_hand():
    """One image in one view with logits (ln 3, 0): p = (3/4, 1/4). Its neighbours say (1/2, 1/2) and (3/4, 1/4)."""
    student = torch.tensor([[[math.log(3), 0.0]]])
    neighbours = torch.tensor([[[0.0, 0.0], [math.log(3), 0.0]]])
    expected = -(5 / 8 * math.log(3 / 4) + 3 / 8 * math.log(1 / 4))
    assert neighbour_cross_entropy(student, neighbours, **SHARP).item() == pytest.approx(expected)


def test_it_is_the_mean_over_views_and_images_in_a_slow_reference():
    generator = torch.Generator().manual_seed(0)
    student, neighbours = torch.randn(2, 3, 4, generator=generator), torch.randn(3, 5, 4, generator=generator)
    total = 0.0
    for v in range(2):
        for b in range(3):
            target = torch.stack([(neighbours[b, m] / 0.05).softmax(0) for m in range(5)]).mean(0)
            total += -(target * (student[v, b] / 0.1).softmax(0).log()).sum().item()
    found = neighbour_cross_entropy(student, neighbours, student_temperature=0.1, teacher_temperature=0.05)
    assert found.item() == pytest.approx(total / 6, rel=1e-5)


def test_an_image_without_neighbours_learns_nothing_from_them():
    student = torch.ones(2, 1, 3, requires_grad=True)
    loss = neighbour_cross_entropy(student, torch.zeros(1, 0, 3), **SHARP)
    loss.backward()
    assert loss.item() == 0
    assert student.grad.abs().sum() == 0


def test_no_gradient_flows_into_the_neighbours():
    student = torch.zeros(2, 1, 3, requires_grad=True)
    neighbours = torch.randn(1, 2, 3, requires_grad=True)
    neighbour_cross_entropy(student, neighbours, **SHARP).backward()
    assert student.grad.abs().sum() > 0
    assert neighbours.grad is None


def test_no_images_give_zero_and_other_shapes_are_refused():
    assert neighbour_cross_entropy(torch.zeros(2, 0, 3), torch.zeros(0, 5, 3), **SHARP).item() == 0
    with pytest.raises(ValueError, match="same images and clusters"):
        neighbour_cross_entropy(torch.zeros(2, 3, 4), torch.zeros(2, 5, 4), **SHARP)
