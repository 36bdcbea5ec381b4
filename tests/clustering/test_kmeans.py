from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.cluster import KMeans as ScikitLearnKMeans

import nngcd.clustering.lloyd as lloyd_module
from nngcd.clustering.kmeans import KMeans
from nngcd.clustering.lloyd import (
    NO_CLUSTER,
    NearestCentres,
    cluster_sums,
    farthest,
    gains,
    lloyd,
    means,
    nearest_clusters,
)
from nngcd.clustering.points import ONE_PROCESS, as_rows, prepare
from nngcd.clustering.seeding import add_centres
from nngcd.clustering.semi_supervised_kmeans import SemiSupervisedKMeans
from nngcd.core.errors import ConfigError, DataError

INITS = ("k-means++", "greedy-k-means++")


def make_blobs(seed, *, n_clusters=8, spread=1.0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_clusters, 12)) * 2
    truth = np.repeat(np.arange(n_clusters), 30)
    return (centres[truth] + rng.normal(size=(len(truth), 12)) * spread).astype(dtype), truth


def inertia(x, labels, centres):
    return float(((x - centres[labels]) ** 2).sum())


def scikit_learn_inertia(x, n_clusters):
    return ScikitLearnKMeans(n_clusters, n_init=10, random_state=0).fit(x).inertia_


@pytest.mark.parametrize(("n_clusters", "spread"), [(8, 0.3), (8, 1.0), (8, 2.0), (30, 0.3)])
def test_the_inertia_is_at_most_one_per_cent_above_that_of_scikit_learn(n_clusters, spread):
    for seed in range(5):
        x, _ = make_blobs(seed, n_clusters=n_clusters, spread=spread)
        assert KMeans(n_clusters).fit(x).inertia_ <= 1.01 * scikit_learn_inertia(x, n_clusters)


def test_where_scikit_learns_own_seeds_differ_the_mean_is_within_one_per_cent():
    blobs = [make_blobs(seed, n_clusters=30, spread=1.0)[0] for seed in range(6)]
    assert np.mean([KMeans(30).fit(x).inertia_ / scikit_learn_inertia(x, 30) for x in blobs]) <= 1.01


def test_greedy_seeds_find_clusters_that_plain_ones_miss():
    # Why greedy is the default: 30 clear blobs, ten starts each.
    blobs = [make_blobs(seed, n_clusters=30, spread=0.3)[0] for seed in range(5)]
    plain, greedy = ([KMeans(30, init=init).fit(x).inertia_ for x in blobs] for init in INITS)
    assert np.mean(greedy) < 0.9 * np.mean(plain)


def test_from_the_same_centres_the_result_is_that_of_scikit_learn():
    x, _ = make_blobs(0, spread=2.0, dtype=np.float64)
    ours = KMeans(8, init=x[:8]).fit(x)
    theirs = ScikitLearnKMeans(8, init=x[:8], n_init=1).fit(x)
    assert np.array_equal(ours.labels_.numpy(), theirs.labels_)
    assert np.allclose(ours.cluster_centers_.numpy(), theirs.cluster_centers_, atol=1e-8)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-10)


def test_what_fitting_leaves_behind_fits_together():
    x, truth = make_blobs(1, spread=0.3)
    fitted = KMeans(8).fit(x)
    labels, centres = fitted.labels_.numpy(), fitted.cluster_centers_.numpy()
    assert len(set(zip(labels, truth, strict=True))) == 8
    assert np.allclose(centres, [x[labels == k].mean(0) for k in range(8)], atol=1e-5)
    assert fitted.inertia_ == pytest.approx(inertia(x, labels, centres), rel=1e-5)
    assert torch.equal(fitted.predict(x), fitted.labels_)
    assert 1 <= fitted.n_iter_ <= 300


def test_a_tensor_an_array_and_half_precision_are_all_taken():
    x, _ = make_blobs(0, spread=0.3)
    array, tensor = KMeans(8).fit(x), KMeans(8).fit(torch.from_numpy(x).requires_grad_())
    assert torch.equal(array.cluster_centers_, tensor.cluster_centers_)
    assert not tensor.cluster_centers_.requires_grad
    assert torch.equal(KMeans(8).fit(x.astype(np.float16)).labels_, array.labels_)
    assert KMeans(8).fit(x.astype(np.float64)).cluster_centers_.dtype == torch.float64


@pytest.mark.parametrize("init", INITS)
def test_the_same_seed_gives_the_same_result_and_another_seed_another(init):
    x, _ = make_blobs(0, spread=3.0)
    first, again, other = (KMeans(8, init=init, n_init=1, random_state=seed).fit(x) for seed in (0, 0, 1))
    assert torch.equal(first.cluster_centers_, again.cluster_centers_)
    assert not torch.equal(first.cluster_centers_, other.cluster_centers_)


def test_the_global_random_state_is_left_alone():
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    KMeans(4).fit(make_blobs(0)[0])
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.slow
@pytest.mark.parametrize("init", INITS)
def test_the_block_size_changes_nothing(init):
    x, _ = make_blobs(0, spread=1.0)
    whole, *others = (KMeans(8, init=init, block_size=size).fit(x) for size in (10_000, 64, 7, 1))
    for other in others:
        assert torch.equal(other.labels_, whole.labels_)
        assert torch.allclose(other.cluster_centers_, whole.cluster_centers_, atol=1e-5)
        assert other.inertia_ == pytest.approx(whole.inertia_, rel=1e-6)
        assert torch.equal(other.predict(x), whole.labels_)


def test_no_product_is_larger_than_a_block(monkeypatch):
    sizes = []
    addmm = torch.addmm

    def watched(*args, **kwargs):
        out = addmm(*args, **kwargs)
        sizes.append(out.numel())
        return out

    monkeypatch.setattr(torch, "addmm", watched)
    KMeans(8, n_init=3, block_size=20).fit(make_blobs(0)[0])
    assert max(sizes) == 20 * 3 * 8


def test_starts_advanced_together_end_where_each_ends_alone():
    x, _ = make_blobs(2, spread=3.0, dtype=np.float64)
    points = prepare(x, None, 64, ONE_PROCESS)
    start_rkd = add_centres(points, points.x_nd.new_empty(5, 0, 12), 8, torch.Generator().manual_seed(0))
    alone = [KMeans(8, init=start_kd + points.mean_d, tol=0).fit(x) for start_kd in start_rkd]
    assert len({fit.n_iter_ for fit in alone}) > 1
    centres_rkd, cluster_rn, inertias, n_iter_r = lloyd(points, start_rkd, lambda move_rk: move_rk.sum(1) == 0, 300)
    for start, fit in enumerate(alone):
        assert torch.allclose(centres_rkd[start] + points.mean_d, fit.cluster_centers_, atol=1e-10)
        assert torch.equal(cluster_rn[start], fit.labels_)
        assert (inertias[start], n_iter_r[start]) == (pytest.approx(fit.inertia_), fit.n_iter_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_and_counts_are_those_of_the_rows_and_0_for_an_empty_cluster(dtype):
    x = make_blobs(0, dtype=dtype)[0]
    cluster = np.random.default_rng(0).integers(1, 7, size=len(x))
    sums = cluster_sums(torch.from_numpy(x), torch.from_numpy(cluster), 8).numpy()
    assert np.allclose(sums[:, :-1], [x[cluster == k].sum(0) for k in range(8)], atol=1e-4)
    assert sums[:, -1].tolist() == np.bincount(cluster, minlength=8).tolist()
    assert not cluster_sums(torch.empty(0, 3), torch.empty(0, dtype=torch.long), 2).any()


def test_more_moves_never_raise_the_inertia():
    x, _ = make_blobs(3, spread=3.0, dtype=np.float64)
    values = [KMeans(8, init=x[:8], max_iter=n, tol=0).fit(x).inertia_ for n in range(1, 12)]
    assert all(after <= before + 1e-9 for before, after in pairwise(values))


def test_one_cluster_is_the_mean():
    x, _ = make_blobs(0)
    fitted = KMeans(1).fit(x)
    assert np.allclose(fitted.cluster_centers_[0].numpy(), x.mean(0), atol=1e-5)
    assert fitted.inertia_ == pytest.approx(((x - x.mean(0)) ** 2).sum(), rel=1e-5)


@pytest.mark.parametrize("init", INITS)
def test_as_many_clusters_as_rows_leave_no_error(init):
    x, _ = make_blobs(0)
    fitted = KMeans(30, init=init).fit(x[:30])
    assert sorted(fitted.labels_.tolist()) == list(range(30))
    assert fitted.inertia_ == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("init", INITS)
def test_duplicate_rows_give_finite_centres_even_with_more_clusters_than_places(init):
    x = np.repeat(np.eye(3, dtype=np.float32), 10, axis=0)
    fitted = KMeans(5, init=init).fit(x)
    assert torch.isfinite(fitted.cluster_centers_).all()
    assert fitted.inertia_ == pytest.approx(0, abs=1e-9)
    assert KMeans(2, init=init).fit(np.ones((6, 2))).inertia_ == 0


def test_an_empty_cluster_moves_to_the_farthest_row():
    x = np.array([[0.0, 0], [1, 0], [0, 1], [10, 0]])
    far_off = np.array([[0.3, 0.3], [1000.0, 1000]])
    fitted = KMeans(2, init=far_off).fit(x)
    assert fitted.labels_.tolist() == [0, 0, 0, 1]
    assert fitted.cluster_centers_[1].tolist() == pytest.approx([10, 0])


def test_empty_clusters_take_different_rows_the_farthest_first():
    points = prepare(np.array([[0.0], [1], [2], [9], [-8]]), torch.tensor([-1, -1, -1, 0, -1]), 2, ONE_PROCESS)
    cluster_n, centres_kd = torch.zeros(5, dtype=torch.long), -points.mean_d[None]  # the centre is at 0
    assert (farthest(points, cluster_n, centres_kd, 2) + points.mean_d).flatten().tolist() == pytest.approx([-8, 2])
    assert len(farthest(points, cluster_n, centres_kd, 5)) == 4  # the labelled row is not free to go
    centres_rkd = torch.stack([centres_kd[0], centres_kd[0] + 50, centres_kd[0] + 60])[None]
    nowhere_rn = torch.full_like(cluster_n, NO_CLUSTER)[None]
    total_rke = gains(points, nowhere_rn, cluster_n[None], 3)
    moved = means(points, cluster_n[None], total_rke, centres_rkd)[0] + points.mean_d
    assert moved.flatten().tolist() == pytest.approx([0.8, -8, 2])


def test_sums_that_follow_the_moving_rows_are_those_of_all_rows():
    x, _ = make_blobs(0)
    points = prepare(x, None, 7, ONE_PROCESS)
    generator = torch.Generator().manual_seed(0)
    at_rn = torch.full((2, len(x)), NO_CLUSTER)
    total_rke = torch.zeros(2, 5, x.shape[1] + 1, dtype=torch.float64)
    for _ in range(4):
        next_rn = torch.randint(5, (2, len(x)), generator=generator)
        total_rke += gains(points, at_rn, next_rn, 5)
        at_rn = next_rn
    for total_ke, cluster_n in zip(total_rke, at_rn, strict=True):
        for k in range(5):
            x_md = points.x_nd[cluster_n == k].double()
            assert total_ke[k].tolist() == pytest.approx([*x_md.sum(0).tolist(), len(x_md)], abs=1e-12)


def test_features_far_from_the_origin_do_not_lose_their_digits():
    x, truth = make_blobs(0, spread=0.3)
    fitted = KMeans(8).fit(x + 1000)
    assert len(set(zip(fitted.labels_.tolist(), truth, strict=True))) == 8
    assert fitted.inertia_ == pytest.approx(KMeans(8).fit(x).inertia_, rel=1e-2)


def test_seeds_are_drawn_in_proportion_to_the_squared_distance():
    # Given a centre at 0, rows at 1 and 2 have squared distances 1 and 4.
    points = prepare(np.array([[0.0], [1], [2]]), None, 2, ONE_PROCESS)
    given_rkd = (0 - points.mean_d).repeat(4000, 1, 1)
    seeds = add_centres(points, given_rkd, 2, torch.Generator().manual_seed(0))[:, 1] + points.mean_d
    assert float((seeds == 2).double().mean()) == pytest.approx(0.8, abs=0.02)
    assert not (seeds == 0).any()


def test_greedy_seeds_leave_less_error_than_plain_ones():
    points = prepare(make_blobs(0, n_clusters=20)[0], None, 128, ONE_PROCESS)
    none_rkd = points.x_nd.new_empty(20, 0, 12)
    errors = []
    for n_candidates in (1, 5):
        seeds = add_centres(points, none_rkd, 20, torch.Generator().manual_seed(0), n_candidates=n_candidates)
        errors.append(float(torch.cdist(points.x_nd, seeds).amin(-1).square().sum()))
    assert errors[1] < errors[0]


@pytest.mark.parametrize("init", INITS)
def test_shards_find_what_one_process_finds(in_threads, init):
    x, _ = make_blobs(4, spread=1.5, dtype=np.float64)
    one = KMeans(9, init=init).fit(x)
    shards = in_threads(lambda rows, shards: KMeans(9, init=init, shards=shards).fit(rows), 3, x)
    assert torch.equal(torch.cat([shard.labels_ for shard in shards]), one.labels_)
    for shard in shards:
        assert torch.allclose(shard.cluster_centers_, one.cluster_centers_, atol=1e-10)
        assert shard.inertia_ == pytest.approx(one.inertia_)
        assert shard.n_iter_ == one.n_iter_


def test_shards_agree_on_where_an_empty_cluster_goes(in_threads):
    x = np.array([[0.0, 0], [1, 0], [0, 1], [10, 0], [0, 0.5]])
    far_off = np.array([[0.3, 0.3], [1000.0, 1000], [2000, 2000]])
    one = KMeans(3, init=far_off).fit(x)
    shards = in_threads(lambda rows, shards: KMeans(3, init=far_off, shards=shards).fit(rows), 2, x)
    assert torch.equal(torch.cat([shard.labels_ for shard in shards]), one.labels_)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_clusters": 0}, "n_clusters = 0: must be at least 1"),
        ({"n_clusters": 11}, "must not exceed the 10 rows"),
        ({"n_clusters": 2.0}, r"n_clusters = 2\.0: must be a whole number"),
        ({"n_clusters": 2, "n_init": 0}, "n_init"),
        ({"n_clusters": 2, "max_iter": 0}, "max_iter"),
        ({"n_clusters": 2, "block_size": 0}, "block_size"),
        ({"n_clusters": 2, "init": "random"}, r"must be k-means\+\+ or greedy-k-means\+\+, or the centres"),
        ({"n_clusters": 2, "init": np.zeros((3, 4))}, r"\(3, 4\): must be \(2, 4\)"),
        (
            {"n_clusters": 2, "init": np.diag([1, np.nan, 1, 1])[:2]},
            "init.*: centre 1 has NaN or infinite values; correct it",
        ),
    ],
)
def test_a_setting_that_cannot_be_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        KMeans(**settings).fit(np.random.default_rng(0).normal(size=(10, 4)))


@pytest.mark.parametrize("rows", [np.zeros(3), np.zeros((0, 3)), np.full((3, 2), np.nan), np.full((3, 2), np.inf)])
def test_rows_that_cannot_be_clustered_are_refused(rows):
    with pytest.raises(DataError, match="features"):
        KMeans(2).fit(rows)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.array([["a", "b"], ["c", "d"]]), "Convert your data to numeric values"),
        (np.array([[1, None], [3, 4]]), "the features have NaN or infinite values"),
        ([["a", "b"], ["c", "d"]], "Convert your data to numeric values"),
        (None, "Expected 2D array, got scalar array"),
        (np.ones((3, 2), dtype=complex), "these features cannot be used: Complex data not supported"),
        (torch.ones((3, 2), dtype=torch.complex64), "features of type complex64 cannot be used; give an array of flo"),
        (np.ones((3, 2), dtype="datetime64[s]"), r"features of type datetime64\[s\] cannot be used; give an array of"),
    ],
)
def test_rows_that_are_no_numbers_are_refused(rows, message):
    with pytest.raises(DataError, match=message):
        KMeans(2).fit(rows)


def test_numbers_as_objects_are_taken():
    assert torch.equal(as_rows(np.array([[1, 2.5], [3, 4]], dtype=object)), torch.tensor([[1, 2.5], [3, 4]]).double())


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.diag([1, np.nan]), "the features have NaN or infinite values"),
        (np.diag([np.inf, 1]), "the features have NaN or infinite values"),
    ],
)
def test_rows_without_a_nearest_centre_are_refused(rows, message):
    fitted = KMeans(2, block_size=1).fit(np.eye(2))
    with pytest.raises(DataError, match=message):
        fitted.predict(rows)


def test_rows_are_not_copied_without_need():
    x = np.zeros((3, 2), dtype=np.float32)
    assert as_rows(x).data_ptr() == x.ctypes.data


def test_an_array_that_is_read_backwards_is_taken():
    x, _ = make_blobs(0)
    assert torch.equal(KMeans(8).fit(x[::-1]).labels_, KMeans(8).fit(x[::-1].copy()).labels_)
    assert torch.equal(as_rows(x[:, ::-1]), as_rows(x).flip(1))


def test_the_order_of_an_array_in_memory_is_kept():
    # Products of the same rows in another order may differ in the last bit.
    assert as_rows(np.asfortranarray(np.ones((3, 2)))).stride() == (1, 3)


@pytest.mark.parametrize("n_moved", [0, 1, 4, 12])
def test_comparing_only_with_centres_that_moved_changes_no_assignment(n_moved):
    # Small whole numbers: no product is rounded, and many centres are equally near, of which the first wins.
    rng = np.random.default_rng(n_moved)
    label_n = torch.tensor([0, 7] + [-1] * 198)
    points = prepare(np.zeros((200, 4)), label_n, 64, ONE_PROCESS)
    points = points._replace(x_nd=torch.from_numpy(rng.integers(-3, 4, size=(200, 4))).double())
    first_rkd, moved_rkd = (torch.from_numpy(rng.integers(-3, 4, size=(2, 12, 4))).double() for _ in range(2))
    is_moved_rk = torch.from_numpy(np.stack([rng.permutation(12) < n_moved for _ in range(2)]))
    after_rkd = torch.where(is_moved_rk[..., None], moved_rkd, first_rkd)
    before = nearest_clusters(points, first_rkd, nowhere(points, first_rkd))
    after = nearest_clusters(points, after_rkd, before)
    for centres_rkd, found in ((first_rkd, before), (after_rkd, after)):
        distance_rnk = (points.x_nd[:, None] - centres_rkd[:, None]).square().sum(-1)
        expected_rn = torch.where(label_n < 0, distance_rnk.argmin(-1), label_n)
        assert torch.equal(found.cluster_rn, expected_rn)
    assert torch.equal(after.cluster_rn, nearest_clusters(points, after_rkd, nowhere(points, after_rkd)).cluster_rn)


def nowhere(points, centres_rkd):
    """What is known before the first comparison: nothing."""
    cluster_rn = torch.full((len(centres_rkd), len(points.x_nd)), NO_CLUSTER)
    return NearestCentres(torch.full_like(centres_rkd, torch.nan), cluster_rn, torch.zeros(cluster_rn.shape))


def test_once_few_centres_move_few_products_are_made(monkeypatch):
    x, _ = make_blobs(1, spread=2.5, n_clusters=30, dtype=np.float64)
    n_products = []
    compare = lloyd_module.scores
    monkeypatch.setattr(lloyd_module, "scores", lambda x, c: n_products.append(len(x) * c.shape[1]) or compare(x, c))
    fitted = KMeans(30, init=x[:30], tol=0).fit(x)
    assert sum(n_products) < 0.8 * (fitted.n_iter_ + 1) * len(x) * 30
    monkeypatch.setattr(lloyd_module, "MOST_MOVED", -1)
    plain = KMeans(30, init=x[:30], tol=0).fit(x)
    assert torch.equal(fitted.labels_, plain.labels_)
    assert (fitted.inertia_, fitted.n_iter_) == (plain.inertia_, plain.n_iter_)


@pytest.mark.parametrize("scale", [1e20, 1e-25])
def test_features_that_cannot_be_squared_are_refused(scale):
    points, _ = make_blobs(0)
    with pytest.raises(DataError, match="about their mean are too large or too small to be squared; rescale"):
        KMeans(3).fit(points * np.float32(scale))
    assert len(np.unique(KMeans(3).fit(points.astype(np.float64) * scale).labels_)) == 3


@pytest.mark.parametrize("kind", [KMeans, SemiSupervisedKMeans])
def test_scikit_learns_conventions(kind):
    x = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    first = kind(3, n_init=2, random_state=4)
    copy = clone(first).set_params(max_iter=50)
    assert first.get_params() == copy.get_params() | {"max_iter": first.max_iter, "shards": first.shards}
    labels = first.fit_predict(x)
    assert torch.equal(labels, first.labels_)
    assert torch.equal(copy.fit(x, None).labels_, labels)


def test_labels_reach_the_fit_that_uses_them():
    x = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    y = np.where(np.arange(30) < 10, np.arange(30) % 2, -1)
    assert np.array_equal(SemiSupervisedKMeans(3).fit_predict(x, y)[:10], y[:10])


@pytest.mark.parametrize("init", [None, 3, len])
def test_a_start_that_is_neither_name_nor_centres_is_told_as_such(init):
    with pytest.raises(ConfigError, match=r"^init = .*must be the name of a start or centres of shape \(2, 3\)"):
        KMeans(2, init=init).fit(torch.eye(3))


def test_centres_that_cannot_be_read_say_why():
    with pytest.raises(ConfigError, match=r"centres of shape \(2, 3\); features must not be masked"):
        KMeans(2, init=np.ma.masked_less(np.eye(2, 3), 1)).fit(torch.eye(3))


@pytest.mark.parametrize("kind", [np.int64, np.uint32, np.float64, list])
def test_numbers_that_float32_would_round_are_told_apart(kind):
    second = 1_700_000_000.0
    rows = [[second], [second + 4], [second + 50], [second + 53]]
    labels = KMeans(2).fit(rows if kind is list else np.array(rows, dtype=kind)).labels_.tolist()
    assert labels in ([0, 0, 1, 1], [1, 1, 0, 0])


def test_a_mistake_in_the_start_is_told_in_a_line():
    with pytest.raises(
        ConfigError, match=r"^init = 'list': .*these features cannot be used: setting an array"
    ) as caught:
        KMeans(2, init=[[1.0] * n for n in range(1, 200)]).fit(torch.eye(3))
    assert len(str(caught.value)) < 300
