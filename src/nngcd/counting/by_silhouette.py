"""K from the shape of the clusters alone, for when nothing is labelled."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import pairwise_distances

from nngcd.clustering.kmeans import KMeans
from nngcd.clustering.whitening import main_directions
from nngcd.core.seeds import derive, numpy_generator
from nngcd.counting.scores import (
    CountingTask,
    Floats,
    KEstimate,
    Steps,
    coarse_numbers,
    numbers_around,
    silhouette_of_rows,
)

N_COARSE = 12
N_ROWS = 2000
"""Images whose silhouette is computed; all are clustered."""

SPAN = 2
"""The interval reaches from the estimate divided by this to the estimate times this, or further."""


def by_silhouette(task: CountingTask, why: str) -> KEstimate:
    """Return the K of the best mean silhouette: on a coarse grid first, then between the neighbours of the best.

    Rousseeuw (1987). No label is used, nor whitening, which needs them. The standard error is of the mean over images.
    """
    x_nd = main_directions(task.features_nd).float()
    keep = np.sort(numpy_generator(task.seed, "silhouette").permutation(len(x_nd))[:N_ROWS])
    distance_mm = pairwise_distances(x_nd.numpy()[keep].astype(np.float64))
    np.fill_diagonal(distance_mm, 0)
    coarse = coarse_numbers(max(task.first, min(2, task.last)), task.last, N_COARSE)
    silhouettes: dict[int, Floats] = {}
    steps = Steps(task.progress, len(coarse) + N_COARSE)

    def best_of(numbers: list[int]) -> int:
        for k in numbers:
            fitted = KMeans(k, n_init=3, max_iter=50, random_state=derive(task.seed, k)).fit(x_nd)
            silhouettes[k] = silhouette_of_rows(distance_mm, fitted.labels_.numpy()[keep])
            steps.advance()
        return max(silhouettes, key=lambda k: (silhouettes[k].mean(), -k))

    best = best_of(numbers_around(best_of(coarse), coarse, N_COARSE))
    steps.finish()
    error = silhouettes[best].std() / len(keep) ** 0.5
    curve = tuple((k, float(silhouettes[k].mean())) for k in sorted(silhouettes))
    within = [k for k, mean in curve if mean >= silhouettes[best].mean() - error]
    low = max(min(within[0], -(-best // SPAN)), task.first)
    high = min(max(within[-1], SPAN * best), task.last)
    reason = (
        f"{why}, so the estimate uses only the shape of the clusters; the true number is often outside the interval"
    )
    return KEstimate(best, low, high, curve, "silhouette", "low", reason, task.is_at_edge(low, high))
