import warnings
from math import sqrt

import pytest
import torch

from nngcd.core.errors import ConfigError, NngcdWarning
from nngcd.losses.sparse import hybrid_sparse_norm, warn_if_unbounded


def reference(weight, l1_share, frobenius):
    rows = weight.flatten(1).tolist()
    l1 = sum(abs(x) for row in rows for x in row)
    l21 = sum(sqrt(sum(x * x for x in row)) for row in rows)
    energy = sum(x * x for row in rows for x in row)
    return l1_share * l1 + (1 - l1_share) * (l21 - (energy if frobenius == "squared" else sqrt(energy)))


def test_values_by_hand():
    # Rows (3, 4) and (0, -12): L1 = 19, rows' norms 5 + 12 = 17, energy 25 + 144 = 169, whose root is 13.
    weight = torch.tensor([[3.0, 4.0], [0.0, -12.0]], dtype=torch.float64)
    assert float(hybrid_sparse_norm([weight])) == pytest.approx(0.6 * 19 + 0.4 * (17 - 169))
    assert float(hybrid_sparse_norm([weight], frobenius="norm")) == pytest.approx(0.6 * 19 + 0.4 * (17 - 13))
    assert float(hybrid_sparse_norm([weight], l1_share=1.0)) == pytest.approx(19)
    assert float(hybrid_sparse_norm([weight, weight])) == pytest.approx(2 * (0.6 * 19 + 0.4 * (17 - 169)))


def test_rows_are_outputs_not_inputs():
    wide = torch.tensor([[3.0, 4.0]])
    assert float(hybrid_sparse_norm([wide], l1_share=0.0)) == pytest.approx(5 - 25)
    assert float(hybrid_sparse_norm([wide.T], l1_share=0.0)) == pytest.approx(3 + 4 - 25)


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 2, 2), (1, 5)])
@pytest.mark.parametrize("frobenius", ["squared", "norm"])
@pytest.mark.parametrize("l1_share", [0.0, 0.6, 1.0])
def test_agrees_with_plain_loops(random_tensor, shape, frobenius, l1_share):
    weight = random_tensor(*shape)
    norm = hybrid_sparse_norm([weight], l1_share=l1_share, frobenius=frobenius)
    assert float(norm) == pytest.approx(reference(weight, l1_share, frobenius), abs=1e-10)


def test_a_vector_is_rows_of_one():
    assert float(hybrid_sparse_norm([torch.tensor([3.0, -4.0])], l1_share=0.0)) == pytest.approx(7 - 25)


def test_gradient_is_the_closed_form(random_tensor, gradient):
    weight, beta = random_tensor(4, 3), 0.6
    direction = weight / weight.norm(dim=1, keepdim=True)
    squared = beta * weight.sign() + (1 - beta) * (direction - 2 * weight)
    plain = beta * weight.sign() + (1 - beta) * (direction - weight / weight.norm())
    assert torch.allclose(gradient(lambda w: hybrid_sparse_norm([w]), weight), squared, atol=1e-12)
    assert torch.allclose(gradient(lambda w: hybrid_sparse_norm([w], frobenius="norm"), weight), plain, atol=1e-12)


@pytest.mark.parametrize("frobenius", ["squared", "norm"])
def test_zero_rows_have_a_finite_gradient(gradient, frobenius):
    weight = torch.tensor([[0.0, 0.0], [1.0, 2.0]])
    for zeros in (weight, torch.zeros(2, 2)):
        assert gradient(lambda w: hybrid_sparse_norm([w], frobenius=frobenius), zeros).isfinite().all()


def test_the_plain_norm_is_bounded_below_and_the_squared_one_is_not(random_tensor):
    weight = random_tensor(6, 5)
    for scale in (0.01, 1.0, 100.0, 1e4):
        assert hybrid_sparse_norm([weight * scale], l1_share=0.0, frobenius="norm") >= 0
    assert hybrid_sparse_norm([weight * 1e4]) < -1e6
    one_row = torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=torch.float64)
    assert float(hybrid_sparse_norm([one_row], l1_share=0.0, frobenius="norm")) == pytest.approx(0, abs=1e-12)


def test_order_of_rows_columns_and_weights_does_not_matter(random_tensor):
    one, two = random_tensor(4, 3), random_tensor(2, 5, seed=1)
    norm = hybrid_sparse_norm([one, two])
    for same in ([two, one], [one.flip(0), two.flip(1)], iter([one, two])):
        assert torch.allclose(hybrid_sparse_norm(same), norm, atol=1e-12, rtol=0)


def test_no_weights_weigh_nothing():
    assert hybrid_sparse_norm([]) == 0


def test_an_unknown_frobenius_part_is_refused():
    with pytest.raises(ConfigError, match="frobenius = 'square': must be one of squared, norm"):
        hybrid_sparse_norm([torch.ones(2, 2)], frobenius="square")


@pytest.mark.parametrize("weight_decay", [0.0, 1e-5, 2 * 3e-5 * (1 - 0.6)])
def test_too_little_weight_decay_is_warned_about(weight_decay):
    with pytest.warns(NngcdWarning, match="weights grow without limit"):
        warn_if_unbounded(weight_decay, gamma=3e-5, l1_share=0.6, frobenius="squared")


@pytest.mark.parametrize(
    ("weight_decay", "gamma", "l1_share", "frobenius"),
    [(5e-5, 3e-5, 0.6, "squared"), (0.0, 3e-5, 0.6, "norm"), (0.0, 0.0, 0.6, "squared"), (0.0, 3e-5, 1.0, "squared")],
)
def test_a_bounded_regulariser_is_not(weight_decay, gamma, l1_share, frobenius):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_unbounded(weight_decay, gamma, l1_share, frobenius)
