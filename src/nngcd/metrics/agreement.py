"""Agreement of clusters with classes without a matching; nan without images."""

from __future__ import annotations

from numpy.typing import ArrayLike
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from nngcd.metrics.matching import as_ids, check_same_length


def normalized_mutual_information(truth: ArrayLike, cluster: ArrayLike) -> float:
    """Return the mutual information over the mean of both entropies, in [0, 1]; it grows with ever finer clusters."""
    truth, cluster = as_ids("truth", truth), as_ids("cluster", cluster)
    check_same_length(truth=truth, cluster=cluster)
    return float(normalized_mutual_info_score(truth, cluster)) if truth.size else float("nan")


def adjusted_rand_index(truth: ArrayLike, cluster: ArrayLike) -> float:
    """Return how often two images are rightly together or apart, corrected for chance: 0 is chance, 1 perfect."""
    truth, cluster = as_ids("truth", truth), as_ids("cluster", cluster)
    check_same_length(truth=truth, cluster=cluster)
    return float(adjusted_rand_score(truth, cluster)) if truth.size else float("nan")
