from __future__ import annotations

from functools import partial
from itertools import pairwise, product

import numpy as np
import pytest
import torch

from nngcd.clustering.snmf import indicator_matrix, kernel_kmeans, refine_snmf, solve_snmf
from nngcd.core.errors import ConfigError, DataError
from nngcd.research.theory import kmeans_objective

SOLVERS = ("multiplicative", "projected-gradient")


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def random_matrix(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=seeded(seed))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("is_signed", [False, True])
def test_the_loss_never_rises(solver, is_signed):
    for seed in range(5):
        f_nd = random_matrix(15, 4, seed=seed)
        affinity_nn = f_nd @ f_nd.T if is_signed else f_nd.abs() @ f_nd.abs().T
        start_nk = random_matrix(15, 3, seed=seed + 100).abs()
        losses = [refine_snmf(affinity_nn, start_nk, solver=solver, max_iter=n, tol=0).loss for n in range(40)]
        assert all(after <= before * (1 + 1e-12) for before, after in pairwise(losses))
        assert losses[-1] < losses[0]


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_exact_factorisation_is_found(solver):
    h_nk = torch.nn.functional.one_hot(torch.arange(12) % 3).double() + 0.1 * random_matrix(12, 3).abs()
    affinity_nn = h_nk @ h_nk.T
    result = solve_snmf(affinity_nn, 3, solver=solver, max_iter=5000, tol=1e-14, generator=seeded())
    assert (result.h_nk >= 0).all()
    assert result.loss < 1e-4 * float(affinity_nn.square().sum())
    assert result.loss == pytest.approx(float((affinity_nn - result.h_nk @ result.h_nk.T).square().sum()))


def test_both_solvers_reach_the_same_loss():
    f_nd = random_matrix(20, 5).abs()
    results = [solve_snmf(f_nd @ f_nd.T, 3, solver=s, max_iter=3000, generator=seeded()) for s in SOLVERS]
    assert results[0].loss == pytest.approx(results[1].loss, rel=1e-3)


def test_a_rank_one_optimum_is_the_leading_eigenvector():
    f_nd = random_matrix(10, 4).abs()
    value, vector = torch.linalg.eigh(f_nd @ f_nd.T)
    result = solve_snmf(f_nd @ f_nd.T, 1, solver="projected-gradient", tol=1e-14, generator=seeded())
    assert torch.allclose(result.h_nk[:, 0], vector[:, -1].abs() * value[-1].sqrt(), atol=1e-4)


def test_more_starts_are_never_worse_and_the_same_seed_gives_the_same_factor():
    f_nd = random_matrix(20, 6).abs()
    one, five, again = (solve_snmf(f_nd @ f_nd.T, 4, n_init=n, generator=seeded()) for n in (1, 5, 5))
    assert five.loss <= one.loss
    assert torch.equal(five.h_nk, again.h_nk)


def test_a_zero_matrix_and_a_zero_start_stay_finite():
    zero_nn = torch.zeros(4, 4, dtype=torch.float64)
    for solver in SOLVERS:
        assert torch.isfinite(solve_snmf(zero_nn, 2, solver=solver, generator=seeded()).h_nk).all()
        assert torch.isfinite(refine_snmf(torch.eye(4).double(), zero_nn[:, :2], solver=solver).h_nk).all()


def test_what_cannot_be_is_refused():
    with pytest.raises(DataError, match="symmetric"):
        solve_snmf(random_matrix(3, 3), 2, generator=seeded())
    with pytest.raises(DataError, match="symmetric"):
        solve_snmf(random_matrix(3, 2), 2, generator=seeded())
    with pytest.raises(DataError, match="symmetric"):
        kernel_kmeans(random_matrix(3, 3), 2, generator=seeded())
    with pytest.raises(DataError, match=r"must not be negative; its smallest entry is -0\.5"):
        refine_snmf(torch.eye(2), torch.tensor([[1.0], [-0.5]]))
    with pytest.raises(ConfigError, match="rank"):
        solve_snmf(torch.eye(3), 0, generator=seeded())
    with pytest.raises(ConfigError, match="must be multiplicative or projected-gradient"):
        solve_snmf(torch.eye(3), 1, solver="newton", generator=seeded())


@pytest.mark.parametrize(
    ("affinity_nn", "message"),
    [
        (torch.ones(4), r"must be a symmetric matrix, got shape \(4,\)"),
        (torch.ones(2, 3), r"must be a symmetric matrix, got shape \(2, 3\)"),
        (torch.ones(0, 0), r"must be a symmetric matrix, got shape \(0, 0\)"),
        (
            torch.tensor([[1.0, 2.0], [3.5, 1.0]]),
            "must be a symmetric matrix, but differs from its transpose by up to 1.5",
        ),
        (torch.diag(torch.tensor([1.0, torch.nan])), "has NaN or infinite values"),
        (torch.diag(torch.tensor([1.0, torch.inf])), "has NaN or infinite values"),
        (torch.eye(2, dtype=torch.complex64), "must hold real numbers, got complex64"),
    ],
)
def test_an_affinity_that_cannot_be_is_refused_with_the_reason(affinity_nn, message):
    for solve in (solve_snmf, kernel_kmeans):
        with pytest.raises(DataError, match=message):
            solve(affinity_nn, 1, generator=seeded())
    with pytest.raises(DataError, match=message):
        refine_snmf(affinity_nn, torch.ones(len(affinity_nn), 1))


@pytest.mark.parametrize("solver", SOLVERS)
def test_whole_numbers_are_taken(solver):
    affinity_nn = torch.tensor([[2, 1], [1, 2]])
    whole, real = (
        solve_snmf(a_nn, 1, solver=solver, generator=seeded()) for a_nn in (affinity_nn, affinity_nn.double())
    )
    assert torch.equal(whole.h_nk, real.h_nk)
    assert refine_snmf(affinity_nn, torch.ones(2, 1), solver=solver).loss < 4


def test_arrays_are_taken():
    f_nd = random_matrix(10, 3).abs()
    affinity_nn, start_nk = f_nd @ f_nd.T, random_matrix(10, 2, seed=1).abs()
    for a_nn, s_nk in (
        (affinity_nn.numpy(), start_nk.numpy()),
        (affinity_nn.numpy()[::-1, ::-1][::-1, ::-1], start_nk),
    ):
        assert torch.equal(refine_snmf(a_nn, s_nk).h_nk, refine_snmf(affinity_nn, start_nk).h_nk)
    for solve in (solve_snmf, kernel_kmeans):
        array, tensor = (solve(a_nn, 2, generator=seeded()) for a_nn in (affinity_nn.numpy(), affinity_nn))
        assert torch.equal(array[0], tensor[0])


@pytest.mark.parametrize("affinity_nn", [[["a", "b"], ["c", "d"]], torch.eye(2).to_sparse(), None])
def test_an_affinity_that_is_no_table_of_numbers_is_refused(affinity_nn):
    with pytest.raises(DataError, match=r"affinity .*cannot be used; give"):
        solve_snmf(affinity_nn, 2, generator=seeded())


@pytest.mark.parametrize("setting", [{"rank": 2.0}, {"rank": "2"}, {"rank": 2, "n_init": 1.5}])
def test_settings_that_are_no_whole_numbers_are_refused(setting):
    with pytest.raises(ConfigError, match="must be a whole number"):
        solve_snmf(torch.eye(3), **setting, generator=seeded())


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("dtype", "scale"), [("double", 1e200), ("double", 1e-200), ("float", 1e20), ("float", 1e-25)])
def test_an_affinity_that_cannot_be_squared_is_refused(solver, dtype, scale):
    affinity_nn = (torch.eye(6).double() * scale + scale).to(getattr(torch, dtype))
    with pytest.raises(DataError, match=r"affinity from .* to .* overflows when squared; rescale it"):
        solve_snmf(affinity_nn, 2, solver=solver, generator=seeded())
    with pytest.raises(DataError, match=r"affinity from .* to .* overflows when squared; rescale it"):
        refine_snmf(affinity_nn, torch.ones(6, 2), solver=solver)
    # Kernel k-means squares only the roots of the eigenvalues, in float64.
    assert len(kernel_kmeans(affinity_nn, 2, generator=seeded()).labels_n.unique()) == 2


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_as_float32(solver, dtype):
    f_nd = random_matrix(12, 4).abs() * 30
    affinity_nn = (f_nd @ f_nd.T).to(dtype)
    half, full = (solve_snmf(a_nn, 3, solver=solver, generator=seeded()) for a_nn in (affinity_nn, affinity_nn.float()))
    assert np.isfinite(half.loss)
    assert half.h_nk.dtype == torch.float32
    assert torch.equal(half.h_nk, full.h_nk)


@pytest.mark.parametrize(
    ("start_nk", "message"),
    [
        (torch.full((3, 2), torch.nan), "the start has NaN or infinite values; correct them"),
        (torch.full((3, 2), torch.inf), "the start has NaN or infinite values; correct them"),
        (torch.ones(2, 3), r"the start must have shape \(3, columns of H\), .* got \(2, 3\)"),
        (torch.ones(1, 2), r"the start must have shape \(3, columns of H\), .* got \(1, 2\)"),
        (torch.ones(3), r"the start must have shape \(3, columns of H\), .* got \(3,\)"),
        (torch.ones(3, 2, dtype=torch.complex64), "start must hold real numbers, got complex64"),
        (torch.full((3, 2), 1e15), r"affinity up to 1 and start up to 1e\+15 overflow when squared; rescale them"),
        (torch.full((3, 2), 1e300, dtype=torch.float64), "overflow when squared; rescale them"),
    ],
)
def test_a_start_that_cannot_be_is_refused(start_nk, message):
    with pytest.raises(DataError, match=message):
        refine_snmf(torch.eye(3), start_nk)


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1, 1e6])
def test_whether_a_matrix_is_symmetric_does_not_depend_on_its_scale(scale):
    f_nd = random_matrix(10, 3)
    affinity_nn, noise_nn = f_nd @ f_nd.T, random_matrix(10, 10, seed=1)
    solve_snmf((affinity_nn + 1e-6 * noise_nn) * scale, 2, generator=seeded())
    for share in (1, 1e-3):
        with pytest.raises(DataError, match="must be a symmetric matrix, but differs from its transpose by up to"):
            solve_snmf((affinity_nn + share * noise_nn) * scale, 2, generator=seeded())


@pytest.mark.parametrize("scale", [1e-3, 1, 1e3])
def test_what_all_close_to_its_transpose_is_counts_as_symmetric(scale):
    # The default of `torch.allclose` at its limit: 1e-8 and 1e-5 of the entry.
    affinity_nn = scale * torch.eye(3).double()
    affinity_nn[0, 1] = 0.99e-8
    affinity_nn[1, 2], affinity_nn[2, 1] = 0.5 * scale, 0.5 * scale * (1 + 0.99e-5) + 0.99e-8
    assert torch.allclose(affinity_nn, affinity_nn.T)
    solve_snmf(affinity_nn, 2, generator=seeded())


def test_the_indicator_by_hand():
    h_nk = indicator_matrix(torch.tensor([0, 1, 0, 0, 0]), 2)
    assert h_nk.tolist() == [[0.5, 0], [0, 1], [0.5, 0], [0.5, 0], [0.5, 0]]
    assert torch.allclose(h_nk.T @ h_nk, torch.eye(2, dtype=torch.float64))
    with pytest.raises(DataError, match=r"all 3 clusters must have rows, sizes are \[4, 1, 0\]"):
        indicator_matrix(torch.tensor([0, 1, 0, 0, 0]), 3)


def test_kernel_k_means_finds_the_best_of_all_partitions():
    f_nd = random_matrix(8, 3)
    partitions = [torch.tensor(c) for c in product(range(3), repeat=8) if len(set(c)) == 3]
    best = min(float(kmeans_objective(f_nd, labels)) for labels in partitions)
    result = kernel_kmeans(f_nd @ f_nd.T, 3, n_init=20, generator=seeded())
    assert result.objective == pytest.approx(best, abs=1e-9)
    assert float(kmeans_objective(f_nd, result.labels_n)) == pytest.approx(best, abs=1e-9)


def test_kernel_k_means_of_an_indefinite_matrix_knows_its_objective():
    affinity_nn = random_matrix(9, 9) + random_matrix(9, 9).T
    result = kernel_kmeans(affinity_nn, 3, generator=seeded())
    h_nk = indicator_matrix(result.labels_n, 3)
    expected = affinity_nn.trace() - (h_nk.T @ affinity_nn @ h_nk).trace()
    assert result.objective == pytest.approx(float(expected), abs=1e-9)


def test_kernel_k_means_separates_rings_that_k_means_cannot():
    angle = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    ring = np.stack([np.cos(angle), np.sin(angle)], 1)
    x_nd = torch.from_numpy(np.concatenate([ring, 5 * ring]))
    affinity_nn = (-torch.cdist(x_nd, x_nd).square() / 2).exp()
    # Neighbours on a ring are linked, the rings are not: powers of the normalised kernel make that a block matrix.
    root_n = affinity_nn.sum(1).sqrt()
    affinity_nn = torch.linalg.matrix_power(affinity_nn / torch.outer(root_n, root_n), 200)
    labels = kernel_kmeans(affinity_nn, 2, generator=seeded()).labels_n
    assert len(set(labels[:40].tolist())) == len(set(labels[40:].tolist())) == 1
    assert labels[0] != labels[40]


@pytest.mark.parametrize(("name", "value"), [("max_iter", -5), ("max_iter", 2.5), ("tol", -1.0), ("tol", "a"),
                                             ("tol", float("nan"))])  # fmt: skip
def test_limits_that_cannot_be_are_refused(name, value):
    for solve in (partial(solve_snmf, rank=1, generator=seeded()), partial(refine_snmf, start_nk=torch.ones(2, 1))):
        with pytest.raises(ConfigError, match=f"^{name} = "):
            solve(torch.eye(2), **{name: value})


@pytest.mark.parametrize("labels", [[0, -1], [0, 2], []])
def test_the_indicator_of_what_is_no_cluster_is_refused(labels):
    with pytest.raises(DataError, match="every row must be in one of the clusters 0 to 1"):
        indicator_matrix(np.array(labels, dtype=np.int64), 2)


def test_more_clusters_than_points_are_refused():
    with pytest.raises(ConfigError, match="n_clusters"):
        kernel_kmeans(torch.eye(3), 4, generator=seeded())


def test_an_affinity_that_is_a_part_of_a_graph_is_taken_out_of_it():
    affinity = torch.eye(3, requires_grad=True)
    assert not solve_snmf(affinity, 2, generator=torch.Generator().manual_seed(0)).h_nk.requires_grad
