"""Making a `Confidence` after training, from held-back labels and from how the images cluster."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from nngcd.clustering.kmeans import KMeans
from nngcd.clustering.surroundings import Surroundings
from nngcd.core.seeds import derive, torch_generator
from nngcd.metrics.calibration import best_temperature
from nngcd.results.confidence import UNSURE, Confidence

TEMPERATURE_SPREAD = 0.12
"""Prior scale of the logarithm of the temperature: the deviation of the best temperatures of six runs, on folders made
of other species than those of the measurements (docs/guides/confidence.md). Some thirty held-back images say less."""
TEMPERATURE_TAIL = 3
"""Degrees of freedom of the prior, a Student's t: scores that are far off, as of some methods, are still corrected."""
LEAST_FAMILIAR = 0.02
"""Share of the training images that are less familiar than the limit of what counts as seen in training."""
N_KEPT = 200
"""Of more reference values than this, as many quantiles are kept."""
ROWS_PER_BLOCK = 8192
PRIOR_IMAGES = 2
"""Weight of the usual evidence of other runs, counted in images."""
MOST_PLAIN = 20_000
"""Of more images a random part is clustered by the plain k-means."""


def calibrate(  # noqa: PLR0913 (what a model says, of what, and what is known about it)
    scores_nk: Tensor,
    features_nd: Tensor,
    labels: NDArray[np.int64],
    is_held_back: NDArray[np.bool_],
    *,
    n_old: int,
    steadiness: Sequence[float] = (),
    unsure: float = UNSURE,
    seed: int = 0,
) -> Confidence:
    """Return the confidence of a model, from its scores of the images it was fitted on.

    Args:
        scores_nk: the scores of all images.
        features_nd: the learned features of all images.
        labels: (n,) all labels given, -1 for unlabelled.
        is_held_back: (n,) which of them training did not know.
        n_old: the number of known categories.
        steadiness: of each cluster, as `PlainClusters` gives it.
        unsure: the share of known images to call unsure.
        seed: of what is drawn where there are many images.
    """
    scores_nk, features_nd = scores_nk.cpu(), features_nd.cpu()
    held, label_m = torch.from_numpy(np.flatnonzero(is_held_back)), labels[is_held_back]
    temperature = fitted_temperature(scores_nk[held], label_m) if len(held) else 1.0
    surroundings = Surroundings.of(
        features_nd,
        scores_nk.argmax(-1),
        torch.from_numpy(np.where(is_held_back, -1, labels)),
        n_old=n_old,
        generator=torch_generator(seed, "surroundings"),
    )
    plain = Confidence(
        temperature=temperature,
        n_held_back=len(held),
        n_right=int((scores_nk[held].argmax(-1).numpy() == label_m).sum()),
        steadiness=tuple(steadiness),
        size=_relative_sizes(scores_nk.argmax(-1), labels, is_held_back, n_old, scores_nk.shape[1]),
        familiar=float(np.quantile(scores_nk.max(-1).values.numpy(), LEAST_FAMILIAR)),
        surroundings=surroundings,
    )
    plain = _with_usual_evidence(plain, features_nd, scores_nk.argmax(-1), labels, is_held_back)
    # In blocks: of all images at once, the scores would be there several times.
    columns = (torch.split(t, ROWS_PER_BLOCK) for t in (scores_nk, features_nd))
    judged = [plain.judge(scores_bk, features_bd, n_old=n_old) for scores_bk, features_bd in zip(*columns, strict=True)]
    sure_n = torch.cat([block.right_b for block in judged]).numpy()
    is_open = labels < 0
    return dataclasses.replace(
        plain,
        sureness=_kept(sure_n[is_held_back if len(held) else is_open]),
        sureness_of_all=_kept(sure_n[is_open]),
        unsure=unsure,
    )


def _with_usual_evidence(
    plain: Confidence,
    features_nd: Tensor,
    cluster_n: Tensor,
    labels: NDArray[np.int64],
    is_held_back: NDArray[np.bool_],
) -> Confidence:
    """Return the same with what is usual around images that are called known, which differs from run to run.

    Held-back images are of known categories and show it for genuine ones; unlabelled images show how uneven it is.
    """
    surroundings = plain.surroundings
    assert surroundings is not None
    is_known_n = cluster_n < len(surroundings.share_k)
    held_m, open_m = (
        _around(surroundings, features_nd, cluster_n, (is_known_n & torch.from_numpy(is_in_n)).nonzero().flatten())
        for is_in_n in (is_held_back, labels < 0)
    )
    squares = float((open_m - open_m.mean()).square().sum())
    return dataclasses.replace(
        plain,
        usual_around=(float(held_m.sum()) + PRIOR_IMAGES * plain.usual_around) / (len(held_m) + PRIOR_IMAGES),
        unevenness=((squares + PRIOR_IMAGES * plain.unevenness**2) / (len(open_m) + PRIOR_IMAGES)) ** 0.5,
    )


def _around(surroundings: Surroundings, features_nd: Tensor, cluster_n: Tensor, row_m: Tensor) -> Tensor:
    blocks = [surroundings.evidence(features_nd[rows], cluster_n[rows]) for rows in torch.split(row_m, ROWS_PER_BLOCK)]
    return torch.cat(blocks).double()


def _relative_sizes(
    cluster_n: Tensor, labels: NDArray[np.int64], is_held_back: NDArray[np.bool_], n_old: int, n_clusters: int
) -> tuple[float, ...]:
    """Return how many images each cluster has, over those of the median known cluster, or of the median one."""
    own_n = np.where((labels >= 0) & ~is_held_back, labels, cluster_n.numpy())
    n_k = np.bincount(own_n, minlength=n_clusters)
    usual = float(np.median(n_k[:n_old] if n_old else n_k))
    return tuple((n_k / max(usual, 1.0)).tolist())


def fitted_temperature(scores_mk: Tensor, label_m: NDArray[np.int64]) -> float:
    """Return the temperature under which the labels are most probable, drawn towards 1 (see TEMPERATURE_SPREAD).

    Guo et al. (2017) fit the temperature alone; with few labels, all of them right, that makes every image certain.
    """

    def prior(log_temperature: float) -> float:
        squared = (log_temperature / TEMPERATURE_SPREAD) ** 2
        return (TEMPERATURE_TAIL + 1) / 2 * math.log1p(squared / TEMPERATURE_TAIL)

    return best_temperature(scores_mk.double().numpy(), label_m, prior)


class PlainClusters(NamedTuple):
    """Plain k-means of the features before training: it knows neither labels nor what training will do."""

    row_m: Tensor
    """The images that were clustered."""
    cluster_m: Tensor

    @classmethod
    def of(cls, features_nd: Tensor, n_clusters: int, *, seed: int) -> PlainClusters:
        """Return the clusters of the images, or of a random part of them where there are many."""
        row_m = (
            torch.randperm(len(features_nd), generator=torch_generator(seed, "plain rows"))[:MOST_PLAIN].sort().values
        )
        unit_md = F.normalize(features_nd[row_m.to(features_nd.device)].cpu().float(), dim=-1)
        found = KMeans(min(n_clusters, len(row_m)), n_init=1, random_state=derive(seed, "plain clusters")).fit(unit_md)
        return cls(row_m, found.labels_.cpu())

    def steadiness(self, cluster_n: Tensor, n_clusters: int) -> list[float]:
        """Return for each cluster after training the share of its pairs of images that are also together here.

        A cluster that training made of two classes tends to be in two here. One without a pair gets a half.
        """
        count_kp = torch.zeros(n_clusters, n_clusters, dtype=torch.float64)
        one = torch.ones(1, dtype=torch.float64)
        count_kp.index_put_((cluster_n.cpu()[self.row_m], self.cluster_m), one, accumulate=True)
        size_k = count_kp.sum(1)
        # Half a pair more of each kind: few images do not make a cluster steady or unsteady for sure.
        share_k = (count_kp * (count_kp - 0.5)).sum(1) / size_k.square().clamp(min=1)
        steady: list[float] = torch.where(size_k > 1, share_k, 0.5).clamp(0, 1).tolist()
        return steady


def _kept(values: Sequence[float] | NDArray[np.float64]) -> tuple[float, ...]:
    """Return the sorted values, or N_KEPT of their quantiles; rounding could put one above what it came from."""
    rising = np.sort(np.asarray(values, dtype=np.float64))
    if len(rising) > N_KEPT:
        rising = np.quantile(rising, np.linspace(0, 1, N_KEPT))
    return tuple(rising.tolist())
