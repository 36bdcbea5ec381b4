"""The first centres of k-means, drawn by k-means++ for all starts at once."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.clustering.points import WIDE, Points


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
