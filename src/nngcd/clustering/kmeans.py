"""k-means as matrix multiplication: all starts advance together, one block of rows at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from nngcd.core.errors import ConfigError, DataError
from nngcd.core.seeds import torch_generator

Rows = Tensor | NDArray[Any]
WIDE = torch.float64
"""The type of sums over many rows; everything else has the type of the rows."""


@dataclass(frozen=True, slots=True)
class Shards:
    """How rows are spread over processes: each fits its own rows, and all find what one would find with all rows.

    Each needs at least one row. Rank and count are there because a seed is drawn from all rows, in rank order.
    """

    rank: int = 0
    count: int = 1
    all_reduce: Callable[[Tensor], Tensor] = lambda total: total
    """Returns the sum of a tensor over all processes; nothing else passes between them."""

    def gather(self, own: Tensor) -> Tensor:
        """Return every shard's tensor, stacked in the order of the ranks."""
        slots = own.new_zeros(self.count, *own.shape)
        slots[self.rank] = own
        return self.all_reduce(slots)


ONE_PROCESS = Shards()
Starts = tuple[Tensor, Tensor, list[float], Tensor]
"""Where every start has ended: centres_rkd less the mean of the rows, cluster_rn, inertia, number of moves."""


class Points(NamedTuple):
    """The rows less mean_d, the mean of all shards: norm_n = |x|^2, less 2 x.c, plus |c|^2 is accurate in float32."""

    x_nd: Tensor
    norm_n: Tensor
    label_n: Tensor
    """The cluster a row is held in; -1 for a free row."""
    mean_d: Tensor
    n_total: int
    """Rows of all shards."""
    block_size: int
    shards: Shards

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Give the rows a block at a time, each with where it lies."""
        for start in range(0, len(self.x_nd), self.block_size):
            rows = slice(start, start + self.block_size)
            yield rows, self.x_nd[rows]


class Centroids:
    """What fitting leaves behind, under scikit-learn's names: tensors on the device of the rows."""

    block_size: int
    cluster_centers_: Tensor
    labels_: Tensor
    inertia_: float
    """Sum over the rows of the squared distance to the centre of their cluster."""
    n_iter_: int

    def _keep_best(self, points: Points, starts: Starts) -> None:
        centres_kd, self.labels_, self.inertia_, n_iter = min(zip(*starts, strict=True), key=lambda start: start[2])
        self.cluster_centers_, self.n_iter_ = centres_kd + points.mean_d, int(n_iter)

    def predict(self, X: Rows) -> Tensor:  # noqa: N803 (scikit-learn's name)
        """Return the nearest centre of each row."""
        origin_d = self.cluster_centers_.mean(0)
        centres_rkd = (self.cluster_centers_ - origin_d)[None]
        blocks = torch.split(as_rows(X).to(centres_rkd), self.block_size)
        return torch.cat([scores(x_bd - origin_d, centres_rkd)[:, 0].argmax(-1) for x_bd in blocks])


@dataclass(eq=False)
class KMeans(Centroids):
    """k-means with scikit-learn's conventions, for tensors on any device and for numpy arrays.

    Memory: a centred copy of the rows, a few numbers per row and start, `block_size * n_init * n_clusters` scores.
    """

    n_clusters: int
    _: KW_ONLY
    init: Literal["k-means++", "greedy-k-means++"] | Rows = "greedy-k-means++"
    """How the first centres are drawn: in proportion to the squared distance (Arthur & Vassilvitskii 2007); the best of
    2 + log K such draws, which scikit-learn calls k-means++ and which misses far fewer clusters (`test_kmeans.py`); or
    the centres themselves, which makes one start."""
    n_init: int = 10
    """Starts; the one with the least inertia is kept."""
    max_iter: int = 300
    tol: float = 1e-4
    """A start has settled when its centres' squared moves sum to at most this share of a feature's mean variance."""
    random_state: int = 0
    block_size: int = 4096
    """Rows per matrix product; changes memory and speed, not the result."""
    shards: Shards = field(default=ONE_PROCESS, repr=False)

    def fit(self, X: Rows) -> KMeans:  # noqa: N803 (scikit-learn's name)
        """Find the clusters of the rows; raise `ConfigError` or `DataError` where settings or rows cannot be used."""
        points = prepare(X, None, self.block_size, self.shards)
        self._keep_best(points, self.fit_starts(points))
        return self

    def fit_starts(self, points: Points) -> Starts:
        """Return what every start finds in rows that are prepared already."""
        check_settings(points, n_clusters=self.n_clusters, n_init=self.n_init, max_iter=self.max_iter)
        limit = self.tol * total(points, points.norm_n) / (points.n_total * len(points.mean_d))
        start_rkd = self._first_centres(points)
        return lloyd(points, start_rkd, lambda move_rk: move_rk.square().sum(1) <= limit, self.max_iter)

    def _first_centres(self, points: Points) -> Tensor:
        shape = (self.n_clusters, len(points.mean_d))
        if not isinstance(self.init, str):
            centres_kd = as_rows(self.init).to(points.x_nd)
            if centres_kd.shape != shape:
                raise ConfigError("init", tuple(centres_kd.shape), f"must be {shape}: clusters, features")
            return (centres_kd - points.mean_d)[None]
        n_candidates = {"k-means++": 1, "greedy-k-means++": 2 + int(math.log(self.n_clusters))}
        if self.init not in n_candidates:
            raise ConfigError("init", self.init, f"must be {' or '.join(n_candidates)}, or the centres")
        generator = torch_generator(self.random_state, "k-means++")
        none_rkd = points.x_nd.new_empty(self.n_init, 0, shape[1])
        return add_centres(points, none_rkd, self.n_clusters, generator, n_candidates=n_candidates[self.init])


def as_rows(values: Rows) -> Tensor:
    """Return a non-empty table as float32 or float64, without a copy where possible."""
    row_nd = torch.as_tensor(values).detach()
    if row_nd.ndim != 2 or not row_nd.numel():
        raise DataError(f"features must be a non-empty table (rows, features), got shape {tuple(row_nd.shape)}")
    return row_nd if row_nd.dtype in (torch.float32, torch.float64) else row_nd.float()


def prepare(values: Rows, label_n: Tensor | None, block_size: int, shards: Shards) -> Points:
    """Return the points of a table of rows; without labels all are free."""
    row_nd = as_rows(values)
    sum_d = torch.stack([row_bd.sum(0, dtype=WIDE) for row_bd in torch.split(row_nd, max(block_size, 1))]).sum(0)
    total_e = shards.all_reduce(torch.cat([sum_d, sum_d.new_tensor([len(row_nd)])]))
    if not torch.isfinite(total_e).all():
        raise DataError("the features hold NaN or infinite values; leave those rows out or mend them")
    mean_d = (total_e[:-1] / total_e[-1]).to(row_nd.dtype)
    label_n = torch.full((len(row_nd),), -1) if label_n is None else label_n
    x_nd = row_nd - mean_d
    norm_n = torch.cat([x_bd.square().sum(1) for x_bd in torch.split(x_nd, max(block_size, 1))])
    return Points(x_nd, norm_n, label_n.to(row_nd.device), mean_d, int(total_e[-1]), block_size, shards)


def check_settings(points: Points, **numbers: int) -> None:
    """Raise `ConfigError` for numbers that cannot be, `n_clusters` among them."""
    for name, value in {**numbers, "block_size": points.block_size}.items():
        if value < 1:
            raise ConfigError(name, value, "must be at least 1")
    if numbers["n_clusters"] > points.n_total:
        raise ConfigError("n_clusters", numbers["n_clusters"], f"must not exceed the {points.n_total} rows")


def scores(x_bd: Tensor, centres_rkd: Tensor) -> Tensor:
    """Return x.c - |c|^2 / 2 as brk, highest for the nearest centre: one product for all starts."""
    centre_md = centres_rkd.flatten(0, 1)
    score_bm = torch.addmm(-centre_md.square().sum(1) / 2, x_bd, centre_md.T)
    return score_bm.view(-1, *centres_rkd.shape[:2])


def nearest_clusters(points: Points, centres_rkd: Tensor) -> Tensor:
    """Return cluster_rn: the nearest centre of free rows; held rows stay where they are held."""
    cluster_rn = points.label_n.repeat(len(centres_rkd), 1)
    for rows, x_bd in points.blocks():
        nearest_rb = scores(x_bd, centres_rkd).argmax(-1).T
        cluster_rn[:, rows] = torch.where(cluster_rn[:, rows] < 0, nearest_rb, cluster_rn[:, rows])
    return cluster_rn


def lloyd(
    points: Points,
    centres_rkd: Tensor,
    has_settled: Callable[[Tensor], Tensor],
    max_iter: int,
    assign: Callable[[Points, Tensor], Tensor] = nearest_clusters,
) -> Starts:
    """Move every start's centres to the means of their clusters until it has settled.

    `has_settled` tells from how far each centre has moved (r, k) which starts are done; `assign` gives cluster_rn.
    """
    centres_rkd, active_r = centres_rkd.clone(), torch.arange(len(centres_rkd), device=centres_rkd.device)
    n_iter_r = torch.zeros_like(active_r)
    for n_iter in range(1, max_iter + 1):
        before_rkd = centres_rkd[active_r]
        after_rkd = means(points, assign(points, before_rkd), before_rkd)
        centres_rkd[active_r], n_iter_r[active_r] = after_rkd, n_iter
        active_r = active_r[~has_settled(torch.linalg.vector_norm(after_rkd - before_rkd, dim=-1))]
        if not len(active_r):
            break
    cluster_rn = assign(points, centres_rkd)
    inertias = [total(points, own_distances(points, *start)) for start in zip(cluster_rn, centres_rkd, strict=True)]
    return centres_rkd, cluster_rn, inertias, n_iter_r


def means(points: Points, cluster_rn: Tensor, centres_rkd: Tensor) -> Tensor:
    """Return the mean of every cluster; empty ones are set on the free rows farthest from their own centres."""
    total_rke = F.pad(torch.zeros_like(centres_rkd, dtype=WIDE), (0, 1))
    for rows, x_bd in points.blocks():
        for total_ke, cluster_b in zip(total_rke, cluster_rn[:, rows], strict=True):
            total_ke += cluster_sums(x_bd, cluster_b, len(total_ke))
    sum_rkd, count_rk1 = points.shards.all_reduce(total_rke).tensor_split([-1], dim=-1)
    mean_rkd = torch.where(count_rk1 > 0, (sum_rkd / count_rk1.clamp_min(1)).to(centres_rkd), centres_rkd)
    is_empty_rk = count_rk1[..., 0] == 0
    for r in is_empty_rk.any(1).nonzero().flatten().tolist():
        empty_j = is_empty_rk[r].nonzero().flatten()
        far_jd = farthest(points, cluster_rn[r], centres_rkd[r], len(empty_j))
        mean_rkd[r, empty_j[: len(far_jd)]] = far_jd
    return mean_rkd


def cluster_sums(x_bd: Tensor, cluster_b: Tensor, n_clusters: int) -> Tensor:
    """Return as ke the sum of every cluster's rows and, last, their number."""
    count_k = cluster_b.bincount(minlength=n_clusters)
    # A bag is summed in the order of its rows on any device; `index_add_` is slower, and on a GPU has no fixed order.
    sum_kd = F.embedding_bag(cluster_b.argsort(stable=True), x_bd, count_k.cumsum(0) - count_k, mode="sum")
    return torch.cat([sum_kd.to(WIDE), count_k[:, None]], 1)


def own_distances(points: Points, cluster_n: Tensor, centres_kd: Tensor) -> Tensor:
    """Return the squared distance of each row to the centre of its cluster, exact also where it is nearly 0."""
    return torch.cat([(x_bd - centres_kd[cluster_n[rows]]).square().sum(1) for rows, x_bd in points.blocks()])


def total(points: Points, value_n: Tensor) -> float:
    """Return the sum of a value over the rows of all shards."""
    return float(points.shards.all_reduce(value_n.sum(dtype=WIDE)))


def farthest(points: Points, cluster_n: Tensor, centres_kd: Tensor, n_wanted: int) -> Tensor:
    """Return the free rows of all shards that are farthest from their centres: at most `n_wanted`, farthest first."""
    distance_n = own_distances(points, cluster_n, centres_kd).masked_fill(points.label_n >= 0, -torch.inf)
    # A stable sort settles ties by the order of the rows, which topk does not; so shards agree with one process.
    far_j, row_j = (sorted_n[:n_wanted] for sorted_n in distance_n.sort(descending=True, stable=True))
    n_missing = n_wanted - len(row_j)
    far_sj = points.shards.gather(F.pad(far_j, (0, n_missing), value=-torch.inf))
    x_sjd = points.shards.gather(F.pad(points.x_nd[row_j], (0, 0, 0, n_missing)))
    far_j, best_j = (sorted_m[:n_wanted] for sorted_m in far_sj.flatten().sort(descending=True, stable=True))
    return x_sjd.flatten(0, 1)[best_j[far_j >= 0]]


def add_centres(
    points: Points, centres_rkd: Tensor, n_clusters: int, generator: torch.Generator, *, n_candidates: int = 1
) -> Tensor:
    """Return the centres with free rows added up to `n_clusters`, drawn by k-means++ for all starts at once.

    Only each row's squared distance to its nearest centre is kept; a new centre costs one product per candidate. Of
    several candidates, the one that leaves the least sum of distances is taken (greedy k-means++).
    """
    n_starts, n_given, _ = centres_rkd.shape
    distance_rn = points.x_nd.new_full((n_starts, len(points.x_nd)), torch.inf)
    chosen = []
    for k in range(n_clusters):
        new_rd = centres_rkd[:, k] if k < n_given else _draw(points, distance_rn, n_candidates if k else 1, generator)
        for rows, _ in points.blocks():
            distance_rn[:, rows] = _distances_with(new_rd[:, None], points, rows, distance_rn)[:, 0]
        chosen.append(new_rd)
    return torch.stack(chosen, 1)


def _distances_with(new_rjd: Tensor, points: Points, rows: slice, distance_rn: Tensor) -> Tensor:
    """Return as rjb the squared distance of each row to its nearest centre if centre j were added."""
    new_rjb = new_rjd.square().sum(-1, keepdim=True) - 2 * (new_rjd @ points.x_nd[rows].T) + points.norm_n[rows]
    return torch.minimum(new_rjb.clamp_min(0), distance_rn[:, None, rows])


def _draw(points: Points, distance_rn: Tensor, n_candidates: int, generator: torch.Generator) -> Tensor:
    """Return new_rd: the best of the candidates, drawn from all shards' free rows in proportion to the distance."""
    shards, is_free_n = points.shards, points.label_n < 0
    # The tiny weights vanish in float64 beside any distance: they only count when every free row lies on a centre
    # (then any free row will do), or when no row is free (then any row).
    cumulative_rn = ((distance_rn.to(WIDE).nan_to_num(posinf=1.0) + 1e-100) * is_free_n + 1e-200).cumsum(1)
    end_sr = F.pad(shards.gather(cumulative_rn[:, -1]).cumsum(0), (0, 0, 1, 0))
    start_r1, end_r1 = end_sr[shards.rank][:, None], end_sr[shards.rank + 1][:, None]
    ticket_rj = torch.rand(len(distance_rn), n_candidates, dtype=WIDE, generator=generator).to(end_sr) * end_sr[-1:].T
    row_rj = torch.searchsorted(cumulative_rn, ticket_rj - start_r1, right=True).clamp(max=len(is_free_n) - 1)
    is_here_rj = (ticket_rj >= start_r1) & (ticket_rj < end_r1)
    drawn_rjd = shards.all_reduce(points.x_nd[row_rj] * is_here_rj[..., None])
    if n_candidates == 1:
        return drawn_rjd[:, 0]
    nearest = (_distances_with(drawn_rjd, points, rows, distance_rn) for rows, _ in points.blocks())
    left = [nearest_rjb.sum(-1, dtype=WIDE) for nearest_rjb in nearest]
    best_r = shards.all_reduce(torch.stack(left).sum(0)).argmin(1)
    return drawn_rjd[torch.arange(len(best_r), device=best_r.device), best_r]
