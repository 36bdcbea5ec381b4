"""CiPR's semi-supervised neighbour clustering: a hierarchy of nearest neighbours, and K clusters out of it.

Selective neighbour clustering (SNC; Hao, Han & Wong, TMLR 2024) is FINCH (Sarfraz et al. 2019) told some labels. Every
image points to one other, and what hangs together is a cluster; clusters then stand for their images and do the same.

No cluster ever holds two labelled classes. Labelled nodes point only to nodes of their own class, and each of their
chains ends in one that points to itself. Who follows the pointers from any node comes to one such end or to none, so
that nothing can bridge two chains. The authors' code also looks through all pairs of labelled nodes for links between
classes: that search has nothing to find, and is left out.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from nngcd.clustering.k_scores import Ids
from nngcd.clustering.points import WIDE, Rows, as_labels, as_rows, check_directions, check_whole
from nngcd.core.errors import ConfigError, DataError

MAX_CELLS = 2**24
"""Similarities held at a time while nearest neighbours are looked for."""
LEAST_NORM = 1e-3
"""Merged clusters that cancel out to less than this share of their lengths have no direction to compare by."""


def partitions(features_nd: Rows, labels_n: Rows) -> list[Ids]:
    """Return the hierarchy: the cluster of each image (0, 1, ... without gaps), finest level first.

    Level 0 links images. An unlabelled image points to its nearest neighbour by cosine, labelled or not. The labelled
    images of a class are walked in chains of ceil(sqrt(their number)), each pointing to the nearest one not yet in a
    chain, the last to itself. Higher levels link clusters by their mean features in the same way, a cluster having the
    class of its labelled images; links longer than the longest of level 0 are left out. The last level is the one that
    cannot change any more; a single cluster says nothing and is left out, unless there is no other level.

    Two departures from the authors' code. There, a chain is made of the first images of a class in file order; here it
    starts at the one farthest from the class's mean and takes the nearest wherever it is, so that the order of images
    is no matter (CUB, K = 200: 41.3 % right; by file order 39.5 to 41.3 % in six shuffled ones). And there, some
    distances count twice, those of mutual neighbours among them, when the longest is sought and compared with; here
    each counts once. On CUB and digits neither limit cuts a link.

    Args:
        features_nd: (n, d) features. Means are of the features as they are, similarities are cosines; give unit
            features to have every image weigh the same.
        labels_n: (n,) label of each image, -1 for unlabelled.

    Raises:
        DataError: features or labels cannot be used.
    """
    return _hierarchy(*_checked(features_nd, labels_n))


def merge_closest(features_nd: Rows, labels_n: Rows, cluster_n: Ids) -> Iterator[Ids]:
    """Give the partitions that merging the two closest clusters makes, one cluster fewer each time.

    It goes on until only clusters of different labelled classes are left, so stop where the next level begins to have
    every number of clusters between two levels, as CiPR does to estimate K. The authors' code looks at fewer pairs of
    one class: those that are next to each other in a chain. Needs 4 or 8 bytes for each pair of clusters to start with.

    Args:
        features_nd: (n, d) features, as for `partitions`.
        labels_n: (n,) label of each image, -1 for unlabelled.
        cluster_n: (n,) cluster of each image to start from, for example a level of `partitions`.

    Raises:
        DataError: the arguments do not fit each other, or a cluster holds images of two labelled classes; told when
            the first partition is asked for.
    """
    x_nd, class_n = _checked(features_nd, labels_n)
    if np.shape(cluster_n) != class_n.shape:
        raise DataError(f"cluster_n must name a cluster for each of {len(class_n)} images, got {np.shape(cluster_n)}")
    start_n = _without_gaps(cluster_n)
    is_mixed_n = (class_n >= 0) & (_classes_of(start_n, class_n)[start_n] != class_n)
    if is_mixed_n.any():
        mixed = np.asarray(cluster_n)[is_mixed_n][0]
        raise DataError(f"cluster {mixed} holds labelled images of two classes; start from a level of partitions()")
    home_m = np.arange(start_n.max() + 1)
    for kept, gone in _closest_pairs(x_nd, class_n, start_n):
        home_m[home_m == gone] = kept
        yield _without_gaps(home_m)[start_n]


def cluster(features_nd: Rows, labels_n: Rows, n_clusters: int) -> Ids:
    """Return the cluster of each image, exactly K of them; cluster k < n_old is the one of labelled class k.

    From the coarsest level that has at least K clusters, the two closest are merged until K are left. Above the number
    of the finest level, the links of that level are followed shortest first until K are left.

    As in the authors' code, a class may be left in several clusters: the one with most of its labelled images is k, the
    others come after the old classes. To join them first would need a finer level to begin with, and single merges from
    there leave many clusters of a few images (measured on CUB with K = 200: 33.6 % right instead of 41.3 %).

    Args:
        features_nd: (n, d) features, as for `partitions`.
        labels_n: (n,) label of each image, 0 to n_old - 1, and -1 for unlabelled.
        n_clusters: K, old classes and new ones together.

    Raises:
        ConfigError: there cannot be so many clusters, or so few.
        DataError: features or labels cannot be used.
    """
    x_nd, class_n = _checked(features_nd, labels_n)
    _check_n_clusters(n_clusters, class_n)
    fine_enough = [level_n for level_n in _hierarchy(x_nd, class_n) if level_n.max() + 1 >= n_clusters]
    if not fine_enough:
        return _numbered_by_class(_shortest_links(x_nd, class_n, n_clusters), class_n)
    start_n = fine_enough[-1]
    home_m = np.arange(start_n.max() + 1)
    for kept, gone in islice(_closest_pairs(x_nd, class_n, start_n), len(home_m) - n_clusters):
        home_m[home_m == gone] = kept
    return _numbered_by_class(_without_gaps(home_m)[start_n], class_n)


def _checked(features_nd: Rows, labels_n: Rows) -> tuple[Tensor, Ids]:
    x_nd = as_rows(features_nd)
    check_directions(x_nd)
    return x_nd, as_labels(labels_n, len(x_nd)).cpu().numpy()


def _check_n_clusters(n_clusters: int, class_n: Ids) -> None:
    check_whole(n_clusters=n_clusters)
    class_c = np.unique(class_n[class_n >= 0])
    is_off_c = class_c != np.arange(len(class_c))
    if is_off_c.any():
        missing = int(is_off_c.argmax())
        raise DataError(f"class {missing} has no labelled row; number the labelled classes 0, 1, 2, ... with no gap")
    n_old, n_images = len(class_c), len(class_n)
    if n_clusters < max(n_old, 1):
        raise ConfigError("n_clusters", n_clusters, f"must be at least {max(n_old, 1)}: {n_old} classes are labelled")
    if n_clusters > n_images:
        raise ConfigError("n_clusters", n_clusters, f"must not exceed the {n_images} images")


def _hierarchy(x_nd: Tensor, class_n: Ids) -> list[Ids]:
    levels: list[Ids] = []
    node_md, class_m, cluster_n, longest = x_nd, class_n, np.arange(len(class_n)), math.inf
    while True:
        target_m, distance_m = _links(F.normalize(node_md).to(x_nd.dtype), class_m)
        if not levels:
            longest = float(distance_m.max())
        kept = np.flatnonzero(distance_m <= longest)
        next_m = _components(kept, target_m[kept], len(class_m))
        if levels and next_m.max() + 1 in (1, len(class_m)):
            return levels
        cluster_n = next_m[cluster_n]
        levels.append(cluster_n)
        node_md, class_m = _sums(node_md, next_m), _classes_of(next_m, class_m)


def _links(unit_md: Tensor, class_m: Ids) -> tuple[Ids, NDArray[np.floating]]:
    """Return the node each node points to and the cosine distance to it, 0 for one that points to itself."""
    target_m = np.arange(len(class_m))
    free = np.flatnonzero(class_m < 0)
    target_m[free] = _nearest(unit_md, torch.from_numpy(free).to(unit_md.device))
    for class_ in np.unique(class_m[class_m >= 0]):
        member_c = np.flatnonzero(class_m == class_)
        target_m[member_c] = member_c[_chain_links(unit_md[torch.from_numpy(member_c)].cpu().numpy())]
    target_unit_md = unit_md[torch.from_numpy(target_m).to(unit_md.device)]
    distance_m = 1 - torch.linalg.vecdot(unit_md, target_unit_md).cpu().numpy()
    return target_m, np.where(target_m == np.arange(len(target_m)), 0, distance_m)


def _nearest(unit_md: Tensor, rows: Tensor) -> Ids:
    """Return the nearest other node of some rows, block by block; the first one where several are as near."""
    nearest = [np.empty(0, dtype=np.int64)]
    for row_b in torch.split(rows, max(MAX_CELLS // len(unit_md), 1)):
        similarity_bm = unit_md[row_b] @ unit_md.T
        similarity_bm[torch.arange(len(row_b), device=row_b.device), row_b] = -torch.inf
        nearest.append(similarity_bm.argmax(1).cpu().numpy())
    return np.concatenate(nearest)


def _chain_links(unit_cd: NDArray[np.floating]) -> Ids:
    """Return the node each node of one class points to: the next in its chain, the last one itself."""
    target_c, is_left_c = np.arange(len(unit_cd)), np.ones(len(unit_cd), dtype=bool)
    length = math.isqrt(len(unit_cd) - 1) + 1
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


def _components(from_l: Ids, to_l: Ids, n_nodes: int) -> Ids:
    """Return the connected component of each node."""
    graph = coo_array((np.ones(len(from_l), dtype=np.int8), (from_l, to_l)), shape=(n_nodes, n_nodes))
    component_m: Ids = connected_components(graph, directed=False)[1].astype(np.int64)
    return component_m


def _sums(node_md: Tensor, cluster_m: Ids) -> Tensor:
    """Return the sum of the features of each cluster, which has the direction of the mean."""
    index_m = torch.from_numpy(cluster_m).to(node_md.device)
    sum_kd = torch.zeros(int(cluster_m.max()) + 1, node_md.shape[1], dtype=WIDE, device=node_md.device)
    size = max(MAX_CELLS // node_md.shape[1], 1)
    for index_b, node_bd in zip(torch.split(index_m, size), torch.split(node_md, size), strict=True):
        sum_kd.index_add_(0, index_b, node_bd.to(WIDE))
    return sum_kd


def _classes_of(cluster_m: Ids, class_m: Ids) -> Ids:
    """Return the labelled class of each cluster, -1 for none."""
    class_k = np.full(cluster_m.max() + 1, -1)
    np.maximum.at(class_k, cluster_m, class_m)
    return class_k


def _without_gaps(id_m: Ids) -> Ids:
    return np.unique(id_m, return_inverse=True)[1]


def _numbered_by_class(cluster_n: Ids, class_n: Ids) -> Ids:
    """Return the partition with cluster k < n_old the one that holds most labelled images of class k."""
    class_k = _classes_of(cluster_n, class_n)
    n_labelled_k = np.bincount(cluster_n[class_n >= 0], minlength=len(class_k))
    old = np.flatnonzero(class_k >= 0)
    fullest_first = old[np.argsort(-n_labelled_k[old], kind="stable")]
    main_c = fullest_first[np.unique(class_k[fullest_first], return_index=True)[1]]
    others = np.setdiff1d(np.arange(len(class_k)), main_c)
    id_k = np.empty_like(class_k)
    id_k[np.concatenate([main_c, others])] = np.arange(len(class_k))
    return id_k[cluster_n]


def _closest_pairs(x_nd: Tensor, class_n: Ids, cluster_n: Ids) -> Iterator[tuple[int, int]]:
    """Give pairs of clusters (kept, gone), kept < gone, the most similar at that time; never two labelled classes.

    Cosines follow from those before: (a + b).c / |a + b||c| needs a.c, b.c and a.b only. Forbidden pairs are -inf,
    which sums keep by themselves. Each row's best is known, so that a merge costs a few rows and not the table.
    """
    sum_md, class_m = _sums(x_nd, cluster_n), _classes_of(cluster_n, class_n)
    norm_m = torch.linalg.vector_norm(sum_md, dim=1).clamp_min(torch.finfo(WIDE).tiny).cpu().numpy()
    unit_md = F.normalize(sum_md).to(x_nd.dtype)
    similarity_mm = (unit_md @ unit_md.T).cpu().numpy()
    np.fill_diagonal(similarity_mm, -np.inf)
    old = np.flatnonzero(class_m >= 0)
    is_other_oo = class_m[old][:, None] != class_m[old]
    similarity_mm[old[:, None], old] = np.where(is_other_oo, -np.inf, similarity_mm[old[:, None], old])
    nearest_m, best_m = similarity_mm.argmax(1), similarity_mm.max(1)
    while best_m.max() > -np.inf:
        first = int(best_m.argmax())
        kept, gone = sorted((first, int(nearest_m[first])))
        yield kept, gone
        _merge(similarity_mm, norm_m, kept, gone)
        is_better_m = similarity_mm[kept] > best_m
        nearest_m[is_better_m], best_m[is_better_m] = kept, similarity_mm[kept, is_better_m]
        is_stale_m = (nearest_m == gone) | ((nearest_m == kept) & ~is_better_m)
        is_stale_m[[kept, gone]] = True
        nearest_m[is_stale_m] = similarity_mm[is_stale_m].argmax(1)
        best_m[is_stale_m] = similarity_mm[is_stale_m].max(1)


def _merge(similarity_mm: NDArray[np.floating], norm_m: NDArray[np.floating], kept: int, gone: int) -> None:
    """Put the similarities of the sum of two clusters in the place of the first; the second has none any more."""
    a, b = norm_m[kept], norm_m[gone]
    squared = a**2 + b**2 + 2 * a * b * similarity_mm[kept, gone]
    norm_m[kept] = max(math.sqrt(max(squared, 0)), LEAST_NORM * (a + b))
    row_m = (a * similarity_mm[kept] + b * similarity_mm[gone]) / norm_m[kept]
    similarity_mm[kept], similarity_mm[:, kept] = row_m, row_m
    similarity_mm[gone], similarity_mm[:, gone] = -np.inf, -np.inf


def _shortest_links(x_nd: Tensor, class_n: Ids, n_clusters: int) -> Ids:
    """Return K clusters, more than the finest level has, by following only the shortest of its links."""
    target_n, distance_n = _links(F.normalize(x_nd), class_n)
    order_n = distance_n.argsort(kind="stable")

    def after(n_links: int) -> Ids:
        taken = order_n[:n_links]
        return _components(taken, target_n[taken], len(order_n))

    # A link leaves one cluster fewer, or none fewer where it closes a ring: every number is met on the way.
    return after(bisect_left(range(len(order_n) + 1), -n_clusters, key=lambda n_links: -int(after(n_links).max()) - 1))
