from itertools import product

import numpy as np
import pytest
import torch

from nngcd.losses.ncl import snmf_loss, spectral_ncl


@pytest.fixture
def cooccurrence(random_tensor):
    """A random symmetric, non-negative P that sums to 1."""
    p_nn = random_tensor(6, 6, seed=7).abs()
    p_nn = p_nn + p_nn.T
    return p_nn / p_nn.sum()


def population_ncl(p_nn, f_nd):
    """The loss of the whole population, in plain loops: the second expectation squares inside and includes x = x'."""
    p_n = p_nn.sum(1)
    total = 0.0
    for x, y in product(range(len(f_nd)), repeat=2):
        agreement = float(f_nd[x] @ f_nd[y])
        total += -2 * float(p_nn[x, y]) * agreement + float(p_n[x] * p_n[y]) * agreement**2
    return total


def k_means_cost(f_nd, cluster):
    return sum(((f_nd[cluster == k] - f_nd[cluster == k].mean(0)) ** 2).sum() for k in np.unique(cluster))


def indicator(cluster):
    h_nk = np.eye(cluster.max() + 1)[cluster]
    return h_nk / np.sqrt(h_nk.sum(0))


def squared_norm(matrix):
    return (matrix**2).sum()


def test_ncl_by_hand():
    # Image 0 has views (1, 0), (2, 1); image 1 has (0, 3), (1, 1). Positives: 2 and 3, so the first term is -2 * 2.5.
    # Negatives: 0, 1 for (1, 0) and 3, 3 for (2, 1), squares 0 + 1 + 9 + 9 over 4 pairs (each in both orders).
    f_vbd = torch.tensor([[[1.0, 0.0], [0.0, 3.0]], [[2.0, 1.0], [1.0, 1.0]]], dtype=torch.float64)
    assert float(spectral_ncl(f_vbd)) == pytest.approx(-5 + 19 / 4)


@pytest.mark.parametrize("shape", [(2, 4, 3), (3, 3, 2)])
def test_ncl_agrees_with_plain_loops(random_tensor, shape):
    f_vbd = random_tensor(*shape)
    views = [(v, b) for v in range(shape[0]) for b in range(shape[1])]
    pairs = [(one, two, float(f_vbd[one] @ f_vbd[two])) for one, two in product(views, repeat=2)]
    positives = [dot for one, two, dot in pairs if one[1] == two[1] and one[0] != two[0]]
    negatives = [dot**2 for one, two, dot in pairs if one[1] != two[1]]
    expected = -2 * sum(positives) / len(positives) + sum(negatives) / len(negatives)
    assert float(spectral_ncl(f_vbd)) == pytest.approx(expected, abs=1e-10)


def test_order_of_images_and_views_does_not_matter(random_tensor):
    f_vbd = random_tensor(3, 4, 5)
    for same_vbd in (f_vbd.flip(0), f_vbd.flip(1)):
        assert torch.allclose(spectral_ncl(same_vbd), spectral_ncl(f_vbd), atol=1e-12, rtol=0)


def test_one_image_has_only_the_attraction_and_none_is_zero():
    f_vbd = torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])
    assert float(spectral_ncl(f_vbd)) == -2 * 11
    assert spectral_ncl(f_vbd[:, :0]) == 0


def test_batch_loss_is_the_populations_in_expectation(random_tensor, cooccurrence):
    # All batches of two images with two views each, weighted by their probability.
    p_nn = cooccurrence[:3, :3] / cooccurrence[:3, :3].sum()
    f_nd = random_tensor(3, 2)
    expected = sum(
        float(p_nn[a, b] * p_nn[c, d]) * float(spectral_ncl(torch.stack([f_nd[[a, c]], f_nd[[b, d]]])))
        for a, b, c, d in product(range(3), repeat=4)
    )
    assert expected == pytest.approx(population_ncl(p_nn, f_nd), abs=1e-10)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("activation", [torch.relu, torch.clone])
def test_theorem_2_snmf_is_ncl_plus_a_constant(random_tensor, cooccurrence, seed, activation):
    f_nd = activation(random_tensor(6, 4, seed=seed))
    p_n = cooccurrence.sum(1)
    constant = float((cooccurrence**2 / torch.outer(p_n, p_n)).sum())
    loss = float(snmf_loss(cooccurrence, f_nd))
    assert loss == pytest.approx(constant + population_ncl(cooccurrence, f_nd), abs=1e-10)


def test_disjoint_uniform_classes_are_factorised_exactly():
    cluster = np.array([0, 0, 0, 1, 1, 2])
    is_same = torch.from_numpy(cluster[:, None] == cluster).double()
    p_nn = is_same / is_same.sum()
    # A block of n_k points has P = 1 / S and p = n_k / S, so A = 1 / n_k in it; f = e_k sqrt(S) / n_k gives F F^T = A.
    sizes = torch.tensor([3.0, 3, 3, 2, 2, 1], dtype=torch.float64)
    f_nd = torch.eye(3, dtype=torch.float64)[cluster] * (is_same.sum().sqrt() / sizes)[:, None]
    assert float(snmf_loss(p_nn, f_nd)) == pytest.approx(0, abs=1e-12)


def test_snmf_by_hand():
    # P = [[.4, .1], [.1, .4]]: p = 1/2 each, A = P / (1/2). f = (1), (0) gives F F^T = [[1/2, 0], [0, 0]].
    p_nn = torch.tensor([[0.4, 0.1], [0.1, 0.4]], dtype=torch.float64)
    f_nd = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    assert float(snmf_loss(p_nn, f_nd)) == pytest.approx((0.8 - 0.5) ** 2 + 2 * 0.2**2 + 0.8**2, abs=1e-12)


@pytest.mark.parametrize(
    ("p_nn", "message"),
    [
        ([[1.0]], "must be 2 x 2, got"),
        ([[0.5, 0.5], [0.0, 0.0]], "symmetric and non-negative"),
        ([[1.5, -0.25], [-0.25, 0.0]], "symmetric and non-negative"),
        ([[1.0, 0.0], [0.0, 0.0]], "row without any mass"),
    ],
)
def test_a_matrix_that_is_no_cooccurrence_is_refused(p_nn, message):
    with pytest.raises(ValueError, match=message):
        snmf_loss(torch.tensor(p_nn), torch.ones(2, 3))


def test_theorem_1_k_means_is_snmf_for_every_partition():
    rng = np.random.default_rng(0)
    f_nd = rng.normal(size=(7, 3))
    a_nn = f_nd @ f_nd.T
    for _ in range(20):
        cluster = rng.permutation(np.concatenate([np.arange(3), rng.integers(0, 3, 4)]))
        h_nk = indicator(cluster)
        cost = k_means_cost(f_nd, cluster)
        factorised = squared_norm(a_nn - h_nk @ h_nk.T)
        assert cost == pytest.approx(np.trace(a_nn) + (factorised - squared_norm(a_nn) - 3) / 2, abs=1e-10)
        assert cost == pytest.approx(np.trace(a_nn) - np.trace(h_nk.T @ a_nn @ h_nk), abs=1e-10)


def test_theorem_1_snmf_is_only_a_relaxation():
    # Non-negative orthonormal columns need not be constant on a cluster: each block's Perron vector does better.
    rng = np.random.default_rng(0)
    f_nd = rng.random((6, 4))
    a_nn = f_nd @ f_nd.T
    partitions = [np.array(c) for c in product(range(2), repeat=6) if len(set(c)) == 2]
    best = min(partitions, key=lambda cluster: k_means_cost(f_nd, cluster))
    relaxed_nk = np.zeros((6, 2))
    for k in range(2):
        block = np.flatnonzero(best == k)
        relaxed_nk[block, k] = np.abs(np.linalg.eigh(a_nn[np.ix_(block, block)])[1][:, -1])
    assert np.allclose(relaxed_nk.T @ relaxed_nk, np.eye(2))
    h_nk = indicator(best)
    assert squared_norm(a_nn - relaxed_nk @ relaxed_nk.T) < squared_norm(a_nn - h_nk @ h_nk.T)
