"""Which nodes a level of CiPR's hierarchy links, and how long the links are (see `clustering/snc.py`)."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.sparse import coo_array
from torch import Tensor

from nngcd.clustering.points import WIDE, Ids

Rule = Literal["unordered", "published"]
"""Order of labelled nodes and limit on links: independent of the order of images, or as in the authors' code."""

MAX_CELLS = 2**24
"""Similarities held at a time while nearest neighbours are looked for."""


class NodeLinks(NamedTuple):
    """Pairs of nodes that belong together unless they are too far apart."""

    from_l: Ids
    to_l: Ids
    length_l: NDArray[np.floating]
    """Cosine distance, which rule `published` counts twice for some pairs; 0 from a node to itself."""


def links(node_md: Tensor, class_m: Ids, *, rule: Rule, dtype: torch.dtype) -> NodeLinks:
    """Return the links between nodes with these features; class_m is -1 for nodes without a label.

    An unlabelled node points to its nearest neighbour, a labelled one to the next in a chain of its class or to itself.
    Rule `unordered` links a node with the one it points to. Rule `published` also links all that point to one node, and
    counts a distance twice where two nodes point to each other, or one to another that points to itself.
    """
    unit_md = F.normalize(node_md).to(dtype)
    target_m = _targets(unit_md, class_m, rule)
    if rule == "unordered":
        node_m = np.arange(len(class_m))
        length_m = _distances(unit_md, node_m, target_m)
        return NodeLinks(node_m, target_m, np.where(target_m == node_m, 0, length_m))
    from_l, to_l, times_l = _common_ends(target_m)
    return NodeLinks(from_l, to_l, times_l * _distances(unit_md, from_l, to_l))


def sums(node_md: Tensor, cluster_m: Ids) -> Tensor:
    """Return the sum of the features of each cluster, which has the direction of the mean."""
    index_m = torch.from_numpy(cluster_m).to(node_md.device)
    sum_kd = torch.zeros(int(cluster_m.max()) + 1, node_md.shape[1], dtype=WIDE, device=node_md.device)
    size = max(MAX_CELLS // node_md.shape[1], 1)
    for index_b, node_bd in zip(torch.split(index_m, size), torch.split(node_md, size), strict=True):
        sum_kd.index_add_(0, index_b, node_bd.to(WIDE))
    return sum_kd


def classes_of(cluster_m: Ids, class_m: Ids) -> Ids:
    """Return the labelled class of each cluster, -1 for none."""
    class_k = np.full(cluster_m.max() + 1, -1)
    np.maximum.at(class_k, cluster_m, class_m)
    return class_k


def published_chains(similarity_cc: NDArray[np.floating]) -> Ids:
    """Return the node each node of one class points to, by the authors' rule.

    The nodes are cut, in the order they come in, into chains of ceil(sqrt(n)). Each chain begins with its first node
    and goes to the nearest of its own that is left; its last node points to itself.
    """
    n_nodes = len(similarity_cc)
    target_c, length = np.arange(n_nodes), _chain_length(n_nodes)
    for start in range(0, n_nodes, length):
        last, left = start, np.arange(start + 1, min(start + length, n_nodes))
        while len(left):
            target_c[last] = left[similarity_cc[last, left].argmax()]
            last = target_c[last]
            left = left[left != last]
    return target_c


def _targets(unit_md: Tensor, class_m: Ids, rule: Rule) -> Ids:
    """Return the node each node points to."""
    target_m = np.arange(len(class_m))
    free = np.flatnonzero(class_m < 0)
    target_m[free] = _nearest(unit_md, torch.from_numpy(free).to(unit_md.device))
    for class_ in np.unique(class_m[class_m >= 0]):
        member_c = np.flatnonzero(class_m == class_)
        unit_cd = unit_md[torch.from_numpy(member_c)].cpu().numpy()
        target_m[member_c] = member_c[
            published_chains(unit_cd @ unit_cd.T) if rule == "published" else _chains(unit_cd)
        ]
    return target_m


def _distances(unit_md: Tensor, from_l: Ids, to_l: Ids) -> NDArray[np.floating]:
    """Return the cosine distance of each pair of nodes."""
    pair_l2 = torch.from_numpy(np.stack([from_l, to_l], 1)).to(unit_md.device)
    size = max(MAX_CELLS // unit_md.shape[1], 1)
    parts = [torch.linalg.vecdot(unit_md[pair[:, 0]], unit_md[pair[:, 1]]) for pair in torch.split(pair_l2, size)]
    return 1 - torch.cat(parts).cpu().numpy()


def _common_ends(target_m: Ids) -> tuple[Ids, Ids, Ids]:
    """Return the pairs of nodes that share an end, and how many; a node's ends are itself and the one it points to."""
    node_m = np.arange(len(target_m))
    places = np.concatenate([node_m, node_m]), np.concatenate([node_m, target_m])
    # Where a node points to itself both ends are one, which then counts twice.
    n_ends_mm = coo_array((np.ones(len(places[0]), dtype=np.int64), places), shape=(len(node_m), len(node_m))).tocsr()
    shared = (n_ends_mm @ n_ends_mm.T).tocoo()
    is_pair = shared.row < shared.col
    return shared.row[is_pair].astype(np.int64), shared.col[is_pair].astype(np.int64), shared.data[is_pair]


def _nearest(unit_md: Tensor, rows: Tensor) -> Ids:
    """Return the nearest other node of some rows, block by block; the first one where several are as near."""
    nearest = [np.empty(0, dtype=np.int64)]
    for row_b in torch.split(rows, max(MAX_CELLS // len(unit_md), 1)):
        similarity_bm = unit_md[row_b] @ unit_md.T
        similarity_bm[torch.arange(len(row_b), device=row_b.device), row_b] = -torch.inf
        nearest.append(similarity_bm.argmax(1).cpu().numpy())
    return np.concatenate(nearest)


def _chains(unit_cd: NDArray[np.floating]) -> Ids:
    """Return the node each node of one class points to: the next in its chain, the last one itself."""
    target_c, is_left_c = np.arange(len(unit_cd)), np.ones(len(unit_cd), dtype=bool)
    length = _chain_length(len(unit_cd))
    outlying_c = -(unit_cd @ unit_cd.mean(0))
    last = -1
    for step in range(len(unit_cd)):
        is_start = step % length == 0
        score_c = outlying_c if is_start else unit_cd @ unit_cd[last]
        node = int(np.where(is_left_c, score_c, -np.inf).argmax())
        if not is_start:
            target_c[last] = node
        is_left_c[node] = False
        last = node
    return target_c


def _chain_length(n_nodes: int) -> int:
    """Return the root of the number of nodes, rounded up."""
    return math.isqrt(n_nodes - 1) + 1
