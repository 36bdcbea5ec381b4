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
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from nngcd.clustering.closest_pairs import closest_pairs
from nngcd.clustering.neighbour_links import Rule, classes_of, links, sums
from nngcd.clustering.points import Ids, Rows, as_labels, as_rows, check_directions, check_whole
from nngcd.core.errors import ConfigError, DataError


def partitions(features_nd: Rows, labels_n: Rows, *, rule: Rule = "unordered") -> list[Ids]:
    """Return the hierarchy: the cluster of each image (0, 1, ... without gaps), finest level first.

    Level 0 links images. An unlabelled image points to its nearest neighbour by cosine, labelled or not. The labelled
    images of a class are walked in chains of ceil(sqrt(their number)), each pointing to the nearest one not yet in a
    chain, the last to itself. Higher levels link clusters by their mean features in the same way, a cluster having the
    class of its labelled images; links longer than the longest of level 0 are left out. The last level is the one that
    cannot change any more; a single cluster says nothing and is left out, unless there is no other level.

    Rule `published` gives the partitions of the authors' code. There, a chain is made of the first images of a class in
    file order; here it starts at the one farthest from the class's mean and takes the nearest wherever it is, so that
    the order of images does not matter (CUB, K = 200: 41.3 % right; by file order 39.5 to 41.3 % in six shuffled ones).
    There, some distances count twice, those of mutual neighbours among them, and those between all that point to one
    place count when the longest is sought; here each link counts once. Either limit can cut links that the other keeps;
    on CUB and digits neither cuts any. And there, a level that merges only two clusters is the last.

    Args:
        features_nd: (n, d) features. Means are of the features as they are, similarities are cosines; give unit
            features to have every image weigh the same.
        labels_n: (n,) label of each image, -1 for unlabelled.
        rule: `published` for the authors' rules, `unordered` for those that do not depend on the order of images.

    Raises:
        DataError: features or labels cannot be used.
    """
    return _hierarchy(*_checked(features_nd, labels_n), rule)


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
    is_mixed_n = (class_n >= 0) & (classes_of(start_n, class_n)[start_n] != class_n)
    if is_mixed_n.any():
        mixed = np.asarray(cluster_n)[is_mixed_n][0]
        raise DataError(f"cluster {mixed} holds labelled images of two classes; start from a level of partitions()")
    home_m = np.arange(start_n.max() + 1)
    for kept, gone in closest_pairs(x_nd, class_n, start_n, rule="unordered"):
        home_m[home_m == gone] = kept
        yield _without_gaps(home_m)[start_n]


def cluster(features_nd: Rows, labels_n: Rows, n_clusters: int, *, rule: Rule = "unordered") -> Ids:
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
        rule: as for `partitions`; `published` also merges two clusters of one class only next to each other in a chain.

    Raises:
        ConfigError: an impossible number of clusters.
        DataError: features or labels cannot be used.
    """
    x_nd, class_n = _checked(features_nd, labels_n)
    _check_n_clusters(n_clusters, class_n)
    fine_enough = [level_n for level_n in _hierarchy(x_nd, class_n, rule) if level_n.max() + 1 >= n_clusters]
    if not fine_enough:
        return _numbered_by_class(_shortest_links(x_nd, class_n, n_clusters, rule), class_n)
    start_n = fine_enough[-1]
    home_m = np.arange(start_n.max() + 1)
    for kept, gone in islice(closest_pairs(x_nd, class_n, start_n, rule=rule), len(home_m) - n_clusters):
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
        raise DataError(f"class {missing} has no labelled row; number the labelled classes 0, 1, 2, ... without gaps")
    n_old, n_images = len(class_c), len(class_n)
    if n_clusters < max(n_old, 1):
        raise ConfigError("n_clusters", n_clusters, f"must be at least {max(n_old, 1)}: {n_old} classes are labelled")
    if n_clusters > n_images:
        raise ConfigError("n_clusters", n_clusters, f"must not exceed the {n_images} images")


def _hierarchy(x_nd: Tensor, class_n: Ids, rule: Rule) -> list[Ids]:
    levels: list[Ids] = []
    node_md, class_m, cluster_n, longest = x_nd, class_n, np.arange(len(class_n)), math.inf
    while True:
        from_l, to_l, length_l = links(node_md, class_m, rule=rule, dtype=x_nd.dtype)
        if not levels:
            longest = float(length_l.max(initial=0))
        is_kept_l = length_l <= longest
        next_m = _components(from_l[is_kept_l], to_l[is_kept_l], len(class_m))
        n_merged = len(class_m) - int(next_m.max()) - 1
        if levels and (n_merged == 0 or next_m.max() == 0):
            return levels
        cluster_n = next_m[cluster_n]
        levels.append(cluster_n)
        if rule == "published" and len(levels) > 1 and n_merged == 1:
            return levels
        node_md, class_m = sums(node_md, next_m), classes_of(next_m, class_m)


def _components(from_l: Ids, to_l: Ids, n_nodes: int) -> Ids:
    """Return the connected component of each node."""
    graph = coo_array((np.ones(len(from_l), dtype=np.int8), (from_l, to_l)), shape=(n_nodes, n_nodes))
    component_m: Ids = connected_components(graph, directed=False)[1].astype(np.int64)
    return component_m


def _without_gaps(id_m: Ids) -> Ids:
    return np.unique(id_m, return_inverse=True)[1]


def _numbered_by_class(cluster_n: Ids, class_n: Ids) -> Ids:
    """Return the partition with cluster k < n_old the one that holds most labelled images of class k."""
    class_k = classes_of(cluster_n, class_n)
    n_labelled_k = np.bincount(cluster_n[class_n >= 0], minlength=len(class_k))
    old = np.flatnonzero(class_k >= 0)
    fullest_first = old[np.argsort(-n_labelled_k[old], kind="stable")]
    main_c = fullest_first[np.unique(class_k[fullest_first], return_index=True)[1]]
    others = np.setdiff1d(np.arange(len(class_k)), main_c)
    id_k = np.empty_like(class_k)
    id_k[np.concatenate([main_c, others])] = np.arange(len(class_k))
    return id_k[cluster_n]


def _shortest_links(x_nd: Tensor, class_n: Ids, n_clusters: int, rule: Rule) -> Ids:
    """Return K clusters, more than the finest level has, by following only the shortest of its links."""
    from_l, to_l, length_l = links(x_nd, class_n, rule=rule, dtype=x_nd.dtype)
    order_l = length_l.argsort(kind="stable")

    def after(n_links: int) -> Ids:
        taken = order_l[:n_links]
        return _components(from_l[taken], to_l[taken], len(class_n))

    # A link leaves one cluster fewer, or none fewer where it closes a ring: every number is met on the way.
    return after(bisect_left(range(len(order_l) + 1), -n_clusters, key=lambda n_links: -int(after(n_links).max()) - 1))
