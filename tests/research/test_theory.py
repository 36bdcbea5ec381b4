"""Both theorems of the paper, to 1e-10 in float64; docs/paper/theory.md has the proofs."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
import torch

from nngcd.clustering.kmeans import KMeans
from nngcd.core.errors import DataError
from nngcd.metrics.matching import match_clusters
from nngcd.research.theory import (
    block_example,
    indicator_matrix,
    kmeans_objective,
    ncl_form_of_snmf,
    perron_indicator,
    population_ncl,
    refine_snmf,
    relaxed_objective,
    snmf_form_of_kmeans,
    snmf_loss,
    solve_snmf,
    spectral_ncl,
    trace_form_of_kmeans,
)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def random_matrix(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=seeded(seed))


def random_partition(n_points, n_clusters, seed):
    generator = seeded(seed)
    some_n = torch.randint(n_clusters, (n_points - n_clusters,), generator=generator)
    return torch.cat([torch.arange(n_clusters), some_n])[torch.randperm(n_points, generator=generator)]


def random_cooccurrence(n_points, seed=0):
    p_nn = random_matrix(n_points, n_points, seed=seed).abs()
    return (p_nn + p_nn.T) / (p_nn + p_nn.T).sum()


def residual(affinity_nn, h_nk):
    return float((affinity_nn - h_nk @ h_nk.T).square().sum())


def is_same_partition(labels_n, other_n):
    return bool((torch.from_numpy(match_clusters(labels_n.numpy(), other_n.numpy()))[labels_n] == other_n).all())


@pytest.mark.parametrize("seed", range(10))
def test_theorem_1_holds_for_every_partition(seed):
    f_nd = random_matrix(25, 6, seed=seed)
    labels_n = random_partition(25, 4, seed)
    cost = float(kmeans_objective(f_nd, labels_n))
    assert float(trace_form_of_kmeans(f_nd @ f_nd.T, labels_n)) == pytest.approx(cost, abs=1e-10)
    assert float(snmf_form_of_kmeans(f_nd @ f_nd.T, labels_n)) == pytest.approx(cost, abs=1e-10)


def test_the_k_means_objective_by_hand():
    # Cluster 0: 0 and 2, mean 1, costs 1 + 1. Cluster 1: 5 alone.
    f_nd = torch.tensor([[0.0], [5.0], [2.0]], dtype=torch.float64)
    assert float(kmeans_objective(f_nd, torch.tensor([0, 1, 0]))) == 2


def test_the_k_means_objective_is_the_inertia_of_k_means():
    f_nd = random_matrix(40, 3)
    fitted = KMeans(5).fit(f_nd)
    assert float(kmeans_objective(f_nd, fitted.labels_)) == pytest.approx(fitted.inertia_, rel=1e-3)
    assert float(kmeans_objective(f_nd, fitted.labels_)) <= fitted.inertia_ + 1e-10


def test_the_printed_constant_of_theorem_1_does_not_hold():
    f_nd = random_matrix(25, 6)
    labels_n = random_partition(25, 4, 0)
    a_nn = f_nd @ f_nd.T
    assert float((a_nn.T @ a_nn).trace()) > 10 * float(a_nn.trace())
    printed = float((a_nn.T @ a_nn).trace() - (a_nn.trace() - trace_form_of_kmeans(a_nn, labels_n)))
    assert printed > 2 * float(kmeans_objective(f_nd, labels_n))


@pytest.mark.parametrize("seed", range(3))
def test_the_relaxations_go_down_in_order(seed):
    # Partitions < non-negative orthonormal H < non-negative H: each set contains the one before.
    f_nd = random_matrix(7, 4, seed=seed).abs()
    a_nn = f_nd @ f_nd.T
    partitions = [torch.tensor(c) for c in product(range(2), repeat=7) if len(set(c)) == 2]
    best_n = min(partitions, key=lambda labels_n: float(kmeans_objective(f_nd, labels_n)))
    h_nk = perron_indicator(a_nn, best_n)
    assert (h_nk >= 0).all()
    assert torch.allclose(h_nk.T @ h_nk, torch.eye(2, dtype=torch.float64), atol=1e-10)
    free_nk = refine_snmf(a_nn, h_nk)
    k_means, orthogonal = float(snmf_form_of_kmeans(a_nn, best_n)), float(relaxed_objective(a_nn, h_nk))
    free = float(relaxed_objective(a_nn, free_nk))
    assert free <= orthogonal + 1e-10
    assert orthogonal <= k_means + 1e-10
    assert free < k_means - 1e-3  # strictly: the problems are not the same


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_the_least_relaxed_value_is_at_most_that_of_k_means(seed):
    f_nd = random_matrix(20, 5, seed=seed).abs()
    a_nn = f_nd @ f_nd.T
    k_means = kmeans_objective(f_nd, KMeans(3, tol=0).fit(f_nd).labels_)
    assert float(relaxed_objective(a_nn, solve_snmf(a_nn, 3))) <= float(k_means) + 1e-10


def test_the_indicator_by_hand():
    h_nk = indicator_matrix(torch.tensor([0, 1, 0, 0, 0]), 2)
    assert h_nk.tolist() == [[0.5, 0], [0, 1], [0.5, 0], [0.5, 0], [0.5, 0]]
    assert torch.allclose(h_nk.T @ h_nk, torch.eye(2, dtype=torch.float64))


@pytest.mark.parametrize("is_signed", [False, True])
def test_the_loss_never_rises(is_signed):
    for seed in range(5):
        f_nd = random_matrix(15, 4, seed=seed)
        affinity_nn = f_nd @ f_nd.T if is_signed else f_nd.abs() @ f_nd.abs().T
        start_nk = random_matrix(15, 3, seed=seed + 100).abs()
        losses = [residual(affinity_nn, refine_snmf(affinity_nn, start_nk, max_iter=n, tol=0)) for n in range(40)]
        assert all(after <= before * (1 + 1e-12) for before, after in pairwise(losses))
        assert losses[-1] < losses[0]


def test_an_exact_factorisation_is_found():
    exact_nk = torch.nn.functional.one_hot(torch.arange(12) % 3).double() + 0.1 * random_matrix(12, 3).abs()
    affinity_nn = exact_nk @ exact_nk.T
    h_nk = solve_snmf(affinity_nn, 3)
    assert (h_nk >= 0).all()
    assert residual(affinity_nn, h_nk) < 1e-4 * float(affinity_nn.square().sum())


def test_a_rank_one_optimum_is_the_leading_eigenvector():
    f_nd = random_matrix(10, 4).abs()
    value, vector = torch.linalg.eigh(f_nd @ f_nd.T)
    h_nk = solve_snmf(f_nd @ f_nd.T, 1)
    assert torch.allclose(h_nk[:, 0], vector[:, -1].abs() * value[-1].sqrt(), atol=1e-4)


def test_ncl_by_hand():
    # Image 0 has views (1, 0), (2, 1); image 1 has (0, 3), (1, 1). Positives: 2 and 3, so the first term is -2 * 2.5.
    # Negatives: 0, 1 for (1, 0) and 3, 3 for (2, 1), squares 0 + 1 + 9 + 9 over 4 pairs (each in both orders).
    f_vbd = torch.tensor([[[1.0, 0.0], [0.0, 3.0]], [[2.0, 1.0], [1.0, 1.0]]], dtype=torch.float64)
    assert float(spectral_ncl(f_vbd)) == pytest.approx(-5 + 19 / 4)


@pytest.mark.parametrize("shape", [(2, 4, 3), (3, 3, 2)])
def test_ncl_agrees_with_plain_loops(shape):
    f_vbd = random_matrix(*shape)
    views = [(v, b) for v in range(shape[0]) for b in range(shape[1])]
    pairs = [(one, two, float(f_vbd[one] @ f_vbd[two])) for one, two in product(views, repeat=2)]
    positives = [dot for one, two, dot in pairs if one[1] == two[1] and one[0] != two[0]]
    negatives = [dot**2 for one, two, dot in pairs if one[1] != two[1]]
    expected = -2 * sum(positives) / len(positives) + sum(negatives) / len(negatives)
    assert float(spectral_ncl(f_vbd)) == pytest.approx(expected, abs=1e-10)


def test_snmf_by_hand():
    # P = [[.4, .1], [.1, .4]]: p = 1/2 each, A = P / (1/2). f = (1), (0) gives F F^T = [[1/2, 0], [0, 0]].
    p_nn = torch.tensor([[0.4, 0.1], [0.1, 0.4]], dtype=torch.float64)
    f_nd = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    assert float(snmf_loss(p_nn, f_nd)) == pytest.approx((0.8 - 0.5) ** 2 + 2 * 0.2**2 + 0.8**2, abs=1e-12)


def test_the_perron_indicator_is_the_indicator_where_row_sums_are_equal():
    example = block_example([3, 4])
    assert torch.allclose(
        perron_indicator(example.affinity_nn, example.labels_n), indicator_matrix(example.labels_n, 2)
    )
    with pytest.raises(DataError, match="must not be negative"):
        perron_indicator(-example.affinity_nn, example.labels_n)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("activation", [torch.relu, torch.clone], ids=["non-negative", "any sign"])
def test_theorem_2_holds_for_every_f(seed, activation):
    p_nn, f_nd = random_cooccurrence(12, seed), activation(random_matrix(12, 4, seed=seed))
    assert float(ncl_form_of_snmf(p_nn, f_nd)) == pytest.approx(float(snmf_loss(p_nn, f_nd)), abs=1e-10)


def test_theorem_2_makes_the_gradients_equal():
    p_nn, f_nd = random_cooccurrence(8), random_matrix(8, 3).requires_grad_()
    (snmf,) = torch.autograd.grad(snmf_loss(p_nn, f_nd), f_nd)
    (ncl,) = torch.autograd.grad(population_ncl(p_nn, f_nd), f_nd)
    assert torch.allclose(snmf, ncl, atol=1e-10, rtol=0)


def test_the_population_loss_is_what_batches_estimate():
    # All batches of two images with two views each, weighted by their probability.
    p_nn, f_nd = random_cooccurrence(3), random_matrix(3, 2)
    mean = sum(
        float(p_nn[a, b] * p_nn[c, d] * spectral_ncl(torch.stack([f_nd[[a, c]], f_nd[[b, d]]])))
        for a, b, c, d in product(range(3), repeat=4)
    )
    assert mean == pytest.approx(float(population_ncl(p_nn, f_nd)), abs=1e-10)


def test_without_signs_the_optimum_is_the_eigen_truncation():
    # HaoChen et al. 2021: the best F of rank k has the k largest eigenvalues; non-negative f cannot do better.
    p_nn = random_cooccurrence(10)
    root_n = p_nn.sum(1).sqrt()
    a_nn = p_nn / torch.outer(root_n, root_n)
    value_n, vector_nn = torch.linalg.eigh(a_nn)
    f_nd = vector_nn[:, -2:] * value_n[-2:].clamp_min(0).sqrt() / root_n[:, None]
    best = float(snmf_loss(p_nn, f_nd))
    assert best == pytest.approx(float(value_n[:-2].square().sum()) + float(value_n[-2:].clamp_max(0).square().sum()))
    assert best <= residual(a_nn, solve_snmf(a_nn, 2)) + 1e-10


def learnt_by_ncl(cooccurrence_nn, n_features, seed):
    """Non-negative features that gradient descent on the NCL loss reaches from a random start."""
    raw_nd = torch.rand(len(cooccurrence_nn), n_features, dtype=torch.float64, generator=seeded(seed)).requires_grad_()
    optimiser = torch.optim.Adam([raw_nd], 0.05)
    for _ in range(600):
        loss = population_ncl(cooccurrence_nn, raw_nd.abs())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return loss.item(), raw_nd.detach().abs()


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[3, 2, 1], [5, 5, 5, 5], [1, 9]])
def test_with_disjoint_classes_all_three_reach_the_same_partition(sizes):
    example = block_example(sizes)
    n_classes = len(sizes)
    assert float(example.cooccurrence_nn.sum()) == pytest.approx(1, abs=1e-12)
    # The classes are the optimum of each: zero distance, zero residual, and the least NCL loss there is.
    assert float(snmf_form_of_kmeans(example.affinity_nn, example.labels_n)) == pytest.approx(0, abs=1e-10)
    assert float(snmf_loss(example.cooccurrence_nn, example.features_nd)) == pytest.approx(0, abs=1e-10)
    assert float(population_ncl(example.cooccurrence_nn, example.features_nd)) == pytest.approx(-n_classes, abs=1e-10)
    # And each finds them from random starts: kernel k-means of A, which is k-means of any F with F F^T = A (A is a
    # projection here, so F = A) and SNMF with orthonormal columns; the largest entry of a free factor H; and k-means of
    # the features that NCL has learnt.
    found_n = KMeans(n_classes, tol=0).fit(example.affinity_nn).labels_
    assert float(trace_form_of_kmeans(example.affinity_nn, found_n)) == pytest.approx(0, abs=1e-10)
    orthogonal_nk = perron_indicator(example.affinity_nn, found_n)
    assert float(relaxed_objective(example.affinity_nn, orthogonal_nk)) == pytest.approx(0, abs=1e-10)
    factor_nk = solve_snmf(example.affinity_nn, n_classes, n_init=10)
    learnt = min((learnt_by_ncl(example.cooccurrence_nn, n_classes, seed) for seed in range(5)), key=lambda one: one[0])
    assert learnt[0] == pytest.approx(-n_classes, abs=1e-3)
    for labels_n in (found_n, factor_nk.argmax(1), KMeans(n_classes).fit(learnt[1]).labels_):
        assert is_same_partition(labels_n, example.labels_n)
