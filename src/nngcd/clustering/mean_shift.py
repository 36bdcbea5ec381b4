"""CMS's clustering: mean shift of all images, Ward's tree cut at K, and labelled images to say when to stop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.cluster.hierarchy import ward
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from nngcd.clustering.neighbours import nearest_neighbours
from nngcd.clustering.points import Ids
from nngcd.metrics.matching import match_clusters

PATIENCE = 2
"""Rounds in a row that match the labelled images no better than before, after which mean shift stops."""


class Partition(NamedTuple):
    """Clusters, and the share of labelled images in the cluster that is matched to their class."""

    cluster_n: Ids
    accuracy: float


def shift(unit_nd: Tensor, *, n_neighbours: int, step: float) -> Tensor:
    """Return all rows one step nearer to the mean of their nearest neighbours, at length 1."""
    neighbour_nm = nearest_neighbours(unit_nd, n_neighbours)
    if not neighbour_nm.shape[1]:
        return unit_nd
    return F.normalize(torch.lerp(unit_nd, unit_nd[neighbour_nm].mean(1), step), dim=-1)


def shifts(unit_nd: Tensor, *, n_neighbours: int, step: float) -> Iterator[Tensor]:
    """Give the rows as they are, after one step, after two, and so on."""
    while True:
        yield unit_nd
        unit_nd = shift(unit_nd, n_neighbours=n_neighbours, step=step)


def best_partition(partitions: Iterable[Partition], *, most: int) -> Partition:
    """Return the last partition that no earlier one beats, after `PATIENCE` that are not better, or `most` in all.

    The authors' rule: an equal accuracy is kept, but counts as a failure.
    """
    best, failures = None, 0
    for found in islice(partitions, most):
        least = 0.0 if best is None else best.accuracy
        failures = 0 if found.accuracy > least else failures + 1
        best = found if best is None or found.accuracy >= least else best
        if failures >= PATIENCE:
            break
    assert best is not None
    return best


def ward_partition(unit_nd: Tensor, labels_n: Ids, n_clusters: Iterable[int]) -> Partition:
    """Return Ward's clusters of the rows, with the number that matches the labelled rows best.

    Of equally good numbers the first one counts. Memory: 8 bytes for each pair of rows, twice.
    """
    tree_m4 = ward(unit_nd.double().cpu().numpy()) if len(unit_nd) > 1 else np.empty((0, 4))
    cuts = [cut(tree_m4, k) for k in n_clusters]
    accuracies = [labelled_accuracy(cluster_n, labels_n) for cluster_n in cuts]
    best = int(np.argmax(accuracies))
    return Partition(cuts[best], accuracies[best])


def cut(tree_m4: NDArray[np.float64], n_clusters: int) -> Ids:
    """Return the cluster of each row when merging stops at this many, also where merges are equally good."""
    n = len(tree_m4) + 1
    n_merges = max(n - n_clusters, 0)
    child_e = tree_m4[:n_merges, :2].astype(np.int64).ravel()
    parent_e = n + np.repeat(np.arange(n_merges), 2)
    graph = coo_array((np.ones(len(child_e), dtype=np.int8), (child_e, parent_e)), shape=(2 * n, 2 * n))
    component_n = connected_components(graph, directed=False)[1][:n]
    return np.unique(component_n, return_inverse=True)[1]


def labelled_accuracy(cluster_n: Ids, labels_n: Ids) -> float:
    """Return the share of labelled rows in the cluster that is matched to their class; 0 without any."""
    is_labelled_n = labels_n >= 0
    if not is_labelled_n.any():
        return 0.0
    class_k = match_clusters(cluster_n[is_labelled_n], labels_n[is_labelled_n])
    return float(np.mean(class_k[cluster_n[is_labelled_n]] == labels_n[is_labelled_n]))


def numbered_by_class(cluster_n: Ids, labels_n: Ids) -> Ids:
    """Return the same clusters; k is the one matched to labelled class k, the others have the numbers that are left."""
    is_labelled_n = labels_n >= 0
    n_clusters = int(cluster_n.max()) + 1
    class_k = np.full(n_clusters, -1)
    matched_k = match_clusters(cluster_n[is_labelled_n], labels_n[is_labelled_n])
    class_k[: len(matched_k)] = np.where(matched_k < n_clusters, matched_k, -1)
    class_k[class_k < 0] = np.setdiff1d(np.arange(n_clusters), class_k)
    return class_k[cluster_n]
