"""K from how well k-means with K clusters finds the labelled classes: GCD's Max-ACC."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from nngcd.clustering.kmeans import KMeans
from nngcd.clustering.points import Ids
from nngcd.clustering.whitening import whitened_within_classes
from nngcd.core.seeds import derive, numpy_generator
from nngcd.counting.scores import (
    CountingTask,
    Floats,
    KEstimate,
    Steps,
    best_number,
    bootstrap_draws,
    coarse_numbers,
    estimate_of_scores,
    numbers_around,
    only_pairs,
    right_by_class,
)

N_COARSE = 20
N_AROUND = 24


def by_accuracy(task: CountingTask) -> KEstimate | None:
    """Return the K whose k-means clusters match the labelled classes best; None with fewer than 2 such classes.

    Max-ACC (Vaze et al., Generalized Category Discovery, CVPR 2022): all images are clustered, and the
    accuracy of the best one-to-one matching on the labelled ones is maximised over K. Departures:

    - The authors minimise over int(K) by Brent's method, which stalls on steps, or by bisection; here it is a geometric
      grid, then the numbers between the neighbours of the best. No K is clustered twice.
    - Features are whitened within the labelled classes.
    - Each K starts from the clusters of the next larger one looked at, the two closest merged as often as it takes.
      Fresh starts make a ragged curve, whose highest point is luck; starts from the next smaller K with a new centre
      never find the classes that were merged once, and are far worse (tried on 4 tasks each of digits and CUB).
    - Of equal accuracies, the middle one.
    """
    class_n = only_pairs(task.class_n)
    n_old = int(class_n.max()) + 1
    if n_old < 2:
        return None
    x_nd = whitened_within_classes(task.features_nd, class_n)
    coarse = coarse_numbers(task.first, min(task.last, len(x_nd)), N_COARSE)
    steps, n_images_c = Steps(task.progress, len(coarse) + N_AROUND), np.bincount(class_n[class_n >= 0])
    clusters: dict[int, Ids] = {}
    right: dict[int, Floats] = {}

    def best_of(numbers: list[int]) -> int:
        for k in sorted(numbers, reverse=True):
            above = min((number for number in clusters if number > k), default=None)
            start_n = None if above is None else clusters[above]
            clusters[k] = _clusters(x_nd, k, start_n, derive(task.seed, "accuracy", k))
            right[k] = right_by_class(clusters[k], class_n)
            steps.advance()
        return best_number({k: float(right_c.sum()) for k, right_c in right.items()})

    best_of(numbers_around(best_of(coarse), coarse, N_AROUND))
    steps.finish()
    k_j = sorted(right)
    draw_sc = bootstrap_draws(n_old, numpy_generator(task.seed, "accuracy bootstrap"))
    accuracy_sj = draw_sc @ np.array([right[k] for k in k_j]).T / (draw_sc @ n_images_c)[:, None]
    return estimate_of_scores(task, "accuracy", k_j, accuracy_sj, n_old)


def _clusters(x_nd: Tensor, n_clusters: int, start_n: Ids | None, seed: int) -> Ids:
    """Return K clusters by k-means, fresh or from a partition that is at least as fine."""
    if start_n is None or len(np.unique(start_n)) < n_clusters:
        fitted = KMeans(n_clusters, n_init=3, max_iter=50, random_state=seed).fit(x_nd)
    else:
        fitted = KMeans(n_clusters, init=merged_centres(x_nd, start_n, n_clusters), max_iter=50).fit(x_nd)
    cluster_n: Ids = fitted.labels_.numpy()
    return cluster_n


def merged_centres(x_nd: Tensor, cluster_n: Ids, n_clusters: int) -> Tensor:
    """Return the centres of K clusters, the two whose union adds least to the inertia merged until there are K.

    Ward (1963): merging clusters of a and b images adds a b / (a + b) times the squared distance of their centres.
    """
    size_k = np.bincount(cluster_n).astype(np.float64)
    sum_kd = np.zeros((len(size_k), x_nd.shape[1]))
    np.add.at(sum_kd, cluster_n, x_nd.numpy())
    mean_kd, size_k = sum_kd[size_k > 0] / size_k[size_k > 0, None], size_k[size_k > 0]
    cost_kk = np.stack([_costs(mean_kd, size_k, k) for k in range(len(size_k))])
    for _ in range(len(size_k) - n_clusters):
        kept, gone = sorted(divmod(int(cost_kk.argmin()), len(cost_kk)))
        mean_kd[kept] = np.average(mean_kd[[kept, gone]], axis=0, weights=size_k[[kept, gone]])
        size_k[kept], size_k[gone] = size_k[kept] + size_k[gone], np.inf
        cost_kk[kept] = cost_kk[:, kept] = _costs(mean_kd, size_k, kept)
        cost_kk[gone] = cost_kk[:, gone] = np.inf
    return torch.from_numpy(mean_kd[np.isfinite(size_k)])


def _costs(mean_kd: Floats, size_k: Floats, k: int) -> Floats:
    """Return what merging cluster k with each other one costs; infinitely much with itself and with those gone."""
    cost_k = ((mean_kd - mean_kd[k]) ** 2).sum(1) / (1 / size_k + 1 / size_k[k])
    is_open_k = np.isfinite(size_k)
    is_open_k[k] = False
    return np.where(is_open_k, cost_k, np.inf)
