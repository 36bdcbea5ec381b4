"""Lloyd's moves: every row joins its nearest centre, every centre moves to the mean of its rows, until all rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.clustering.points import WIDE, Points, UnitRows, total

Starts = tuple[Tensor, Tensor, list[float], Tensor]
"""Where every start has ended: centres_rkd less the mean of the rows, cluster_rn, inertia, number of moves."""
NO_CLUSTER = -1
"""Where a row is before the first move."""
MOST_MOVED = 0.4
"""Where a larger share of the centres moved, comparing all rows with all centres takes less time than picking rows."""


def scores(x_bd: Tensor, centres_rkd: Tensor) -> Tensor:
    """Return x.c - |c|^2 / 2 as brk, highest for the nearest centre: one product for all starts."""
    centre_md = centres_rkd.flatten(0, 1)
    score_bm = torch.addmm(-centre_md.square().sum(1) / 2, x_bd, centre_md.T)
    return score_bm.view(-1, *centres_rkd.shape[:2])


def highest(score_brk: Tensor) -> Tensor:
    """Return the place of the highest score in the last dimension, the first of equals."""
    # On a CPU numpy finds it four times faster than torch, which at many rows is a tenth of a whole move.
    return torch.from_numpy(score_brk.numpy().argmax(-1)) if score_brk.device.type == "cpu" else score_brk.argmax(-1)


class NearestCentres(NamedTuple):
    """In which cluster each row of every start is, and why."""

    centres_rkd: Tensor
    """The centres that were compared."""
    cluster_rn: Tensor
    score_rn: Tensor
    """The score of the nearest centre."""


def nearest_clusters(points: Points, centres_rkd: Tensor, last: NearestCentres) -> NearestCentres:
    """Return the nearest centre of free rows; held rows stay where they are held.

    A centre that has not moved cannot win a row whose own centre has not moved either. So where few centres moved,
    all rows are compared with those, and the rows that these had also with the others: for a share m of the centres
    it is m (2 - m) of the work.
    """
    is_moved_rk = (centres_rkd != last.centres_rkd).any(-1)
    if is_moved_rk.double().mean() > MOST_MOVED:
        return _nearest_of_all(points, centres_rkd)
    cluster_rn, score_rn = last.cluster_rn.clone(), last.score_rn.clone()
    for centres_kd, is_moved_k, cluster_n, score_n in zip(centres_rkd, is_moved_rk, cluster_rn, score_rn, strict=True):
        left_m = (is_moved_k[cluster_n] & (points.label_n < 0)).nonzero().flatten()
        score_n[left_m] = -torch.inf
        for rows, x_bd in points.blocks():
            cluster_n[rows], score_n[rows] = _nearer(x_bd, centres_kd, is_moved_k, cluster_n[rows], score_n[rows])
        for row_b in torch.split(left_m, points.block_size):
            x_bd, before = points.x_nd.index_select(0, row_b), (cluster_n[row_b], score_n[row_b])
            cluster_n[row_b], score_n[row_b] = _nearer(x_bd, centres_kd, ~is_moved_k, *before)
    return NearestCentres(centres_rkd, _held(points, cluster_rn), score_rn)


def _nearest_of_all(points: Points, centres_rkd: Tensor) -> NearestCentres:
    cluster_rn = points.label_n.new_empty(len(centres_rkd), len(points.x_nd))
    score_rn = points.x_nd.new_empty(cluster_rn.shape)
    for rows, x_bd in points.blocks():
        score_brk = scores(x_bd, centres_rkd)
        nearest_br = highest(score_brk)
        cluster_rn[:, rows] = nearest_br.T
        score_rn[:, rows] = score_brk.gather(-1, nearest_br[..., None])[..., 0].T
    return NearestCentres(centres_rkd, _held(points, cluster_rn), score_rn)


def _nearer(
    x_bd: Tensor, centres_kd: Tensor, is_asked_k: Tensor, cluster_b: Tensor, score_b: Tensor
) -> tuple[Tensor, Tensor]:
    """Return cluster and score of each row after it was compared with some of the centres; the first of equals wins."""
    asked_j = is_asked_k.nonzero().flatten()
    if not len(asked_j):
        return cluster_b, score_b
    score_bj = scores(x_bd, centres_kd[asked_j][None])[:, 0]
    best_b = highest(score_bj)
    new_b, new_score_b = asked_j[best_b], score_bj.gather(1, best_b[:, None])[:, 0]
    is_nearer_b = (new_score_b > score_b) | ((new_score_b == score_b) & (new_b < cluster_b))
    return torch.where(is_nearer_b, new_b, cluster_b), torch.where(is_nearer_b, new_score_b, score_b)


def _held(points: Points, cluster_rn: Tensor) -> Tensor:
    return torch.where(points.label_n < 0, cluster_rn, points.label_n)


def lloyd(
    points: Points,
    centres_rkd: Tensor,
    has_settled: Callable[[Tensor], Tensor],
    max_iter: int,
    assign: Callable[[Points, Tensor], Tensor] | None = None,
) -> Starts:
    """Move every start's centres to the means of their clusters until it has settled.

    `has_settled` tells from how far each centre has moved (r, k) which starts are done; `assign` gives cluster_rn where
    it is not that of the nearest centres.
    """

    def assigned(centres_rkd: Tensor, last: NearestCentres) -> NearestCentres:
        if assign is None:
            return nearest_clusters(points, centres_rkd, last)
        return NearestCentres(centres_rkd, assign(points, centres_rkd), last.score_rn)

    centres_rkd, active_r = centres_rkd.clone(), torch.arange(len(centres_rkd), device=centres_rkd.device)
    n_iter_r = torch.zeros_like(active_r)
    nowhere_rn = points.label_n.new_full((len(centres_rkd), len(points.x_nd)), NO_CLUSTER)
    last = NearestCentres(torch.full_like(centres_rkd, torch.nan), nowhere_rn, points.x_nd.new_zeros(nowhere_rn.shape))
    total_rke = F.pad(torch.zeros_like(centres_rkd, dtype=WIDE), (0, 1))
    for n_iter in range(1, max_iter + 1):
        before = NearestCentres(*(part[active_r] for part in last))
        now = assigned(centres_rkd[active_r], before)
        total_rke[active_r] += gains(points, before.cluster_rn, now.cluster_rn, centres_rkd.shape[1])
        after_rkd = means(points, now.cluster_rn, total_rke[active_r], now.centres_rkd)
        for part, part_now in zip(last, now, strict=True):
            part[active_r] = part_now
        centres_rkd[active_r], n_iter_r[active_r] = after_rkd, n_iter
        active_r = active_r[~has_settled(torch.linalg.vector_norm(after_rkd - now.centres_rkd, dim=-1))]
        if not len(active_r):
            break
    cluster_rn = assigned(centres_rkd, last).cluster_rn
    inertias = [total(points, own_distances(points, *start)) for start in zip(cluster_rn, centres_rkd, strict=True)]
    return centres_rkd, cluster_rn, inertias, n_iter_r


def gains(points: Points, before_rn: Tensor, after_rn: Tensor, n_clusters: int) -> Tensor:
    """Return as rke what the clusters' sums and, last, numbers of rows gain; only rows that change cluster are read.

    After a few moves those are one row in a hundred. The sums are kept in float64, so that coming and going leave no
    trace in the means.
    """
    gain_rke = torch.zeros(len(before_rn), n_clusters, len(points.mean_d) + 1, dtype=WIDE, device=points.x_nd.device)
    for gain_ke, before_n, after_n in zip(gain_rke, before_rn, after_rn, strict=True):
        for row_b in torch.split((before_n != after_n).nonzero().flatten(), points.block_size):
            was_b, x_bd = before_n[row_b], points.x_nd.index_select(0, row_b)  # faster than by brackets
            gain_ke += cluster_sums(x_bd, after_n[row_b], n_clusters)
            if (is_leaving_b := was_b != NO_CLUSTER).any():
                gain_ke -= cluster_sums(x_bd[is_leaving_b], was_b[is_leaving_b], n_clusters)
    return gain_rke


def means(points: Points, cluster_rn: Tensor, total_rke: Tensor, centres_rkd: Tensor) -> Tensor:
    """Return the mean of every cluster; empty ones are set on the free rows farthest from their own centres.

    `total_rke` holds the sums and numbers of this shard's rows, `centres_rkd` where the centres were.
    """
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
    sum_kd = F.embedding_bag(cluster_b.argsort(stable=True), x_bd.to(WIDE), count_k.cumsum(0) - count_k, mode="sum")
    return torch.cat([sum_kd, count_k[:, None]], 1)


def class_sums(points: Points | UnitRows) -> Tensor:
    """Return as ce the sum of every class's labelled rows and, last, their number, over all shards."""
    n_old = int(points.shards.gather(points.label_n.max()).max()) + 1
    total_ce = torch.zeros(n_old, len(points.mean_d) + 1, dtype=WIDE, device=points.mean_d.device)
    for rows, x_bd in points.blocks():
        is_labelled_b = points.label_n[rows] >= 0
        total_ce += cluster_sums(x_bd[is_labelled_b], points.label_n[rows][is_labelled_b], n_old)
    return points.shards.all_reduce(total_ce)


def own_distances(points: Points, cluster_n: Tensor, centres_kd: Tensor) -> Tensor:
    """Return the squared distance of each row to the centre of its cluster, exact also where it is nearly 0."""
    return torch.cat([(x_bd - centres_kd[cluster_n[rows]]).square().sum(1) for rows, x_bd in points.blocks()])


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
