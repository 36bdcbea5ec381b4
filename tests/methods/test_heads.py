import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from nngcd.core.errors import ConfigError
from nngcd.core.seeds import torch_generator
from nngcd.methods.heads import (
    ACTIVATIONS,
    CodeHead,
    ProjectionHead,
    Prototypes,
    find_activation,
    negative_mass,
    rep_relu,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def derivative(function, x):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(function(x).sum(), x)[0]


def test_rep_relu_is_relu_forward_and_gelu_backward():
    x = torch.linspace(-4, 4, 101, dtype=torch.float64)
    assert torch.equal(rep_relu(x), F.relu(x))
    assert torch.equal(derivative(rep_relu, x), derivative(F.gelu, x))
    assert (derivative(rep_relu, x)[x < -0.1] != 0).all()


def test_which_activations_are_non_negative():
    x = torch.linspace(-8, 8, 1601, dtype=torch.float64)
    minima = {name: float(activation(x).min()) for name, activation in ACTIVATIONS.items()}
    assert {name for name, minimum in minima.items() if minimum < 0} == {"gelu", "silu", "identity"}
    assert minima["gelu"] == pytest.approx(-0.16997, abs=1e-5)
    assert float(x[ACTIVATIONS["gelu"](x).argmin()]) == pytest.approx(-0.75, abs=0.011)


def test_activation_values_by_hand():
    one = torch.tensor(1.0, dtype=torch.float64)
    expected = {
        "gelu": (1 + math.erf(1 / math.sqrt(2))) / 2,
        "rep_relu": 1,
        "relu": 1,
        "silu": 1 / (1 + math.exp(-1)),
        "softplus": math.log(1 + math.e),
        "sigmoid": 1 / (1 + math.exp(-1)),
        "identity": 1,
    }
    assert {name: float(find_activation(name)(one)) for name in ACTIVATIONS} == pytest.approx(expected)


def test_an_unknown_activation_is_named_with_its_neighbour():
    with pytest.raises(ConfigError, match=r"activation = 'rep_rel': unknown activation. Did you mean 'rep_relu'\?"):
        ProjectionHead(4, activation="rep_rel", generator=generator())


def test_projection_is_three_layers_and_the_activation():
    head = ProjectionHead(6, n_hidden=5, n_out=4, activation="relu", generator=generator())
    x = torch.randn(2, 3, 6, generator=generator(1))
    first, second, third = (head.mlp[i] for i in (0, 2, 4))
    expected = F.relu(third(F.gelu(second(F.gelu(first(x))))))
    assert torch.equal(head(x), expected)
    names = {name for name, _ in head.named_parameters()}
    assert names == {f"mlp.{i}.{kind}" for i in (0, 2, 4) for kind in ("weight", "bias")}


def test_projection_starts_small_without_bias():
    head = ProjectionHead(768, generator=generator())
    assert [tuple(head.mlp[i].weight.shape) for i in (0, 2, 4)] == [(2048, 768), (2048, 2048), (256, 2048)]
    for i in (0, 2, 4):
        assert float(head.mlp[i].weight.detach().std()) == pytest.approx(0.02, rel=0.01)
        assert not head.mlp[i].bias.any()


@pytest.mark.parametrize(
    "make", [lambda g: ProjectionHead(8, n_hidden=7, n_out=6, generator=g), lambda g: Prototypes(8, 5, generator=g)]
)
def test_only_the_given_generator_is_drawn_from(make):
    before = torch.get_rng_state()
    one, same, other = make(generator(0)), make(generator(0)), make(generator(1))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    assert not torch.equal(next(one.parameters()), next(other.parameters()))


def test_logits_are_cosines_by_hand():
    prototypes = Prototypes(2, 2, generator=generator()).double()
    prototypes.weight.data = torch.tensor([[2.0, 0.0], [3.0, 4.0]], dtype=torch.float64)
    logits = prototypes(torch.tensor([[0.0, 5.0], [-1.0, 0.0]], dtype=torch.float64))
    assert torch.allclose(logits, torch.tensor([[0.0, 0.8], [-1.0, -0.6]], dtype=torch.float64))


def test_prototypes_start_as_torch_starts_linear_layers():
    weight = Prototypes(768, 200, generator=generator()).weight.detach()
    assert float(weight.abs().max()) <= 1 / math.sqrt(768)
    assert float(weight.norm(dim=1).mean()) == pytest.approx(1 / math.sqrt(3), rel=0.01)


def test_prototypes_equal_the_authors_weight_norm_in_value_and_gradient():
    ours = Prototypes(6, 4, generator=generator()).double()
    theirs = nn.utils.parametrizations.weight_norm(nn.Linear(6, 4, bias=False).double())
    theirs.parametrizations.weight.original0.data.fill_(1)
    theirs.parametrizations.weight.original1.data.copy_(ours.weight.data)
    x_vbd = torch.randn(2, 3, 6, dtype=torch.float64, generator=generator(1))
    target_vbk = torch.randn(2, 3, 4, dtype=torch.float64, generator=generator(2))
    logits, expected = ours(x_vbd), theirs(F.normalize(x_vbd, dim=-1))
    assert torch.allclose(logits, expected, atol=1e-14, rtol=0)
    ((logits - target_vbk) ** 2).sum().backward()
    ((expected - target_vbk) ** 2).sum().backward()
    assert torch.allclose(ours.weight.grad, theirs.parametrizations.weight.original1.grad, atol=1e-12, rtol=0)


def test_a_shorter_prototype_learns_faster():
    ours = Prototypes(6, 1, generator=generator()).double()
    x = torch.randn(3, 6, dtype=torch.float64, generator=generator(1))
    gradient = torch.autograd.grad(ours(x).sum(), ours.weight)[0]
    ours.weight.data /= 10
    assert torch.allclose(torch.autograd.grad(ours(x).sum(), ours.weight)[0], gradient * 10)


def test_a_zero_feature_has_zero_logits():
    assert not Prototypes(6, 4, generator=generator())(torch.zeros(1, 6)).any()


def test_the_share_of_negative_entries_by_hand():
    x = torch.tensor([[1.0, -2.0], [0.0, 5.0]], requires_grad=True)
    assert negative_mass(x) == pytest.approx(2 / 8)
    assert negative_mass(torch.zeros(2, 2)) == 0


def test_a_fresh_gelu_projection_is_far_from_non_negative():
    x = torch.randn(64, 768, generator=generator(1))
    gelu = ProjectionHead(768, generator=generator())(x)
    assert negative_mass(gelu) == pytest.approx(0.44, abs=0.03)
    assert negative_mass(ProjectionHead(768, activation="rep_relu", generator=generator())(x)) == 0


def test_a_learning_rate_of_prototypes_is_the_rate_of_unit_prototypes():
    """Length 1 / sqrt(r) with rate 1 and length 1 with rate r turn by the same angle, step after step."""
    features, target = torch.randn(20, 6, generator=generator(1)), torch.randn(20, 3, generator=generator(2))
    short = Prototypes(6, 3, generator=generator(), learning_rate=4.0)
    unit = Prototypes(6, 3, generator=generator(), learning_rate=1.0)
    assert torch.allclose(short.weight.norm(dim=-1), torch.full((3,), 0.5))
    for prototypes, rate in ((short, 0.01), (unit, 0.04)):
        optimiser = torch.optim.SGD(prototypes.parameters(), rate, momentum=0.9)
        for _ in range(5):
            optimiser.zero_grad()
            (prototypes(features) * target).sum().backward()
            optimiser.step()
            prototypes.hold_length()
    assert torch.allclose(2 * short.weight, unit.weight, atol=1e-6)
    assert torch.allclose(unit.weight.norm(dim=-1), torch.ones(3))


def test_without_a_learning_rate_the_length_of_prototypes_is_free():
    prototypes = Prototypes(6, 3, generator=generator())
    before = prototypes.weight.detach().clone()
    prototypes.hold_length()
    assert torch.equal(prototypes.weight, before)


def test_codes_by_hand():
    head = CodeHead(2, 3, n_digits=3, n_hidden=4, generator=generator())
    head.coder, head.masker, head.categorizer = nn.Linear(2, 3), nn.Linear(2, 3), nn.Identity()
    with torch.no_grad():
        head.coder.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
        head.masker.weight.zero_()
        head.coder.bias.zero_()
        head.masker.bias.copy_(torch.tensor([0.0, 0.0, -0.25]))
    codes = head(torch.tensor([[[0.5, -2.0]]]), age=3.0, base=1.5)
    digits = [math.tanh(1.5), math.tanh(-6), 0]
    mask = [(math.tanh(0.25) + 1) / 2, (math.tanh(0.25) + 1) / 2, 0.5]
    assert codes.raw_vbl.flatten().tolist() == pytest.approx(digits)
    assert codes.mask_vbl.flatten().tolist() == pytest.approx(mask)
    assert codes.weighted_vbl.flatten().tolist() == pytest.approx([digits[0], digits[1] / 1.5, 0])
    assert codes.category_vbk.flatten().tolist() == pytest.approx([mask[0] * digits[0], mask[1] * digits[1] / 1.5, 0])


def test_a_code_head_has_three_networks_of_four_layers():
    head = CodeHead(6, 5, generator=generator())
    shapes = [tuple(p.shape) for p in head.parameters() if p.ndim == 2]
    between = [(128, 128), (128, 128)]
    assert shapes == [
        *[(128, 6), *between, (40, 128)],
        *[(128, 6), *between, (40, 128)],
        *[(128, 40), *between, (5, 128)],
    ]


def test_prototypes_that_may_not_become_more_can_become_fewer_and_come_back():
    prototypes = Prototypes(4, 5, generator=torch.Generator().manual_seed(0), most=5)
    prototypes.resize(3)
    assert prototypes(torch.eye(4)).shape == (4, 3)
    prototypes.resize(5)
    assert prototypes(torch.eye(4)).shape == (4, 5)
    prototypes.resize(2)
    prototypes.trim()
    assert prototypes.weight.shape == (2, 4)


def test_prototypes_can_become_more_and_fewer_until_they_are_trimmed(rng):
    prototypes = Prototypes(8, 3, generator=torch_generator(0, "init"), most=5)
    x_bd = torch.from_numpy(rng.normal(size=(4, 8))).float()
    before_bk = prototypes(x_bd)
    assert before_bk.shape == (4, 3)
    prototypes.resize(5)
    assert torch.equal(prototypes(x_bd)[:, :3], before_bk)
    mean = prototypes.weight[:3].norm(dim=-1).mean()
    assert torch.allclose(prototypes.weight[3:].norm(dim=-1), mean.expand(2))
    prototypes.resize(2)
    assert prototypes.weight.shape == (5, 8) and not prototypes.weight[2:].any()
    loaded = Prototypes(8, 3, generator=torch_generator(1, "init"), most=5)
    loaded.load_state_dict(prototypes.state_dict())
    assert torch.equal(loaded(x_bd), before_bk[:, :2])
    prototypes.trim()
    assert prototypes.weight.shape == (2, 8) and prototypes.state_dict().keys() == {"weight"}
    assert torch.equal(prototypes(x_bd), before_bk[:, :2])


def test_prototypes_whose_number_stays_have_nothing_but_their_weights():
    prototypes = Prototypes(8, 3, generator=torch_generator(0, "init"))
    assert prototypes.state_dict().keys() == {"weight"} and prototypes.used_kd is prototypes.weight


def test_prototypes_that_may_only_become_fewer_do(rng):
    prototypes = Prototypes(8, 3, generator=torch_generator(0, "init"), most=3)
    prototypes.resize(2)
    assert prototypes(torch.from_numpy(rng.normal(size=(4, 8))).float()).shape == (4, 2)
