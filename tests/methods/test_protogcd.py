from __future__ import annotations

import math

import pytest
import torch

from nngcd.methods.contract import Moment
from nngcd.methods.protogcd import hard_share, partly_hard, separation


@pytest.mark.parametrize(
    ("cosine", "expected"), [(1.0, 10), (0.0, 0), (-1.0, -10)]
)  # fmt: skip
def test_separation_of_two_prototypes(cosine, expected):
    sine = math.sqrt(1 - cosine**2)
    prototypes_kd = torch.tensor([[2.0, 0.0], [3 * cosine, 3 * sine]], requires_grad=True)
    value = separation(prototypes_kd, temperature=0.1)
    assert value.item() == pytest.approx(expected, abs=1e-5)
    value.backward()
    assert prototypes_kd.grad.isfinite().all()


def test_separation_of_a_simplex_and_of_one_prototype():
    angle_k = torch.arange(3) * 2 * math.pi / 3
    simplex_kd = torch.stack([angle_k.cos(), angle_k.sin()], 1)
    assert separation(simplex_kd, temperature=0.1).item() == pytest.approx(-5, abs=1e-5)
    assert separation(simplex_kd[:1], temperature=0.1).item() == 0


def test_the_share_of_hard_pseudo_labels_grows_as_in_the_authors_schedule():
    shares = [hard_share(Moment(epoch, 200, 0, 1), 0.5) for epoch in (0, 50, 98, 99, 199)]
    assert shares == pytest.approx([0, 50 / 99, 98 / 99, 1, 1])
    assert int(128 * shares[1]) == 64
    # A short run, and one of a single epoch.
    assert [hard_share(Moment(epoch, 6, 0, 1), 0.5) for epoch in range(6)] == [0, 0.5, 1, 1, 1, 1]
    assert hard_share(Moment(0, 1, 0, 1), 0.5) == 0


def test_the_most_confident_share_of_each_view_is_hard():
    t_vbk = torch.tensor([[[0.6, 0.3, 0.1], [0.5, 0.4, 0.1]], [[0.1, 0.5, 0.4], [0.1, 0.3, 0.6]]])
    target_vbk = partly_hard(t_vbk.log(), 0.5)
    assert target_vbk[0, 0].tolist() == [1, 0, 0]
    assert target_vbk[1, 1].tolist() == [0, 0, 1]
    assert torch.allclose(target_vbk[0, 1], t_vbk[0, 1])
    assert torch.allclose(target_vbk[1, 0], t_vbk[1, 0])
    assert torch.allclose(partly_hard(t_vbk.log(), 0.49), t_vbk)
