"""The nearest neighbours of every image, by cosine."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.core import processes

MAX_CELLS = 16_000_000
"""Similarities held at a time."""


@torch.no_grad()
def nearest_neighbours(features_nd: Tensor, n_neighbours: int) -> Tensor:
    """Return neighbour_nm: the m images most similar to each image, itself left out, the nearest first.

    Takes time in proportion to the square of the number of images. Of several processes each looks for the neighbours
    of its share, and all get all of them.

    Args:
        features_nd: features of all images; only their directions count.
        n_neighbours: m; fewer where there are not so many other images.
    """
    unit_nd, n = F.normalize(features_nd, dim=-1), len(features_nd)
    m = min(n_neighbours, n - 1)
    rows = torch.arange(n, device=unit_nd.device)[processes.share(n)]
    found = [rows.new_empty(0, m)]
    for row_b in torch.split(rows, max(MAX_CELLS // n, 1)):
        cosine_bn = unit_nd[row_b] @ unit_nd.T
        cosine_bn[torch.arange(len(row_b), device=row_b.device), row_b] = -torch.inf
        found.append(cosine_bn.topk(m).indices)
    return processes.gather(torch.cat(found), n)
