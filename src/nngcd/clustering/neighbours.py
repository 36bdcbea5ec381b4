"""The nearest neighbours of every image, by cosine."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.clustering import faiss_search
from nngcd.core import processes

MAX_CELLS = 16_000_000
"""Similarities held at a time."""


@torch.no_grad()
def nearest_neighbours(features_nd: Tensor, n_neighbours: int, *, candidate_c: Tensor | None = None) -> Tensor:
    """Return neighbour_nm: the m images most similar to each image, itself left out, the nearest first.

    Takes time in proportion to the number of images times that of the candidates. Of several processes each looks for
    the neighbours of its share, and all get all of them.

    Args:
        features_nd: features of all images; only their directions count.
        n_neighbours: m; fewer where there are fewer other candidates.
        candidate_c: the images that neighbours are looked for among, in rising order; all when absent.
    """
    unit_nd, n = F.normalize(features_nd, dim=-1), len(features_nd)
    every_n, unit_cd = torch.arange(n, device=unit_nd.device), unit_nd
    if candidate_c is None:
        candidate_c = every_n
    else:
        candidate_c = candidate_c.to(unit_nd.device)
        unit_cd = unit_nd[candidate_c]
    m = min(n_neighbours, len(candidate_c) - 1)
    rows = every_n[processes.share(n)]
    found = [rows.new_empty(0, m)]
    for row_b in torch.split(rows, max(MAX_CELLS // len(candidate_c), 1)):
        cosine_bc = unit_nd[row_b] @ unit_cd.T
        own_b = torch.searchsorted(candidate_c, row_b).clamp(max=len(candidate_c) - 1)
        is_candidate_b = candidate_c[own_b] == row_b
        cosine_bc[is_candidate_b.nonzero().flatten(), own_b[is_candidate_b]] = -torch.inf
        found.append(candidate_c[cosine_bc.topk(m).indices])
    return processes.gather(torch.cat(found), n)


@cache
def has_index() -> bool:
    """Return whether faiss is installed, which `indexed_neighbours` needs."""
    return find_spec("faiss") is not None


@torch.no_grad()
def indexed_neighbours(features_nd: Tensor, n_neighbours: int) -> Tensor:
    """Return neighbour_nm as `nearest_neighbours` does, by an index of all images that misses some of them.

    Images are put into cells by k-means, and each looks into the cells nearest to it. Of several processes each looks
    for the neighbours of its share, and all get all of them.

    Args:
        features_nd: features of all images; only their directions count.
        n_neighbours: m.
    """
    unit_nd, n = F.normalize(features_nd, dim=-1), len(features_nd)
    share = processes.share(n)
    own_b = torch.arange(n)[share]
    found_bm = torch.tensor(faiss_search.search(unit_nd.float().cpu().numpy(), share, n_neighbours + 1))
    # Itself last, and with it what was not found, for which the nearest one stands.
    is_other_bm = (found_bm != own_b[:, None]) & (found_bm >= 0)
    order_bm = (~is_other_bm).to(torch.int8).argsort(dim=1, stable=True)[:, :n_neighbours]
    kept_bm, is_kept_bm = found_bm.gather(1, order_bm), is_other_bm.gather(1, order_bm)
    kept_bm = torch.where(is_kept_bm, kept_bm, kept_bm[:, :1].clamp(min=0))
    return processes.gather(kept_bm.to(features_nd.device), n)
