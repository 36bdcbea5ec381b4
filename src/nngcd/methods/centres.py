"""Shared code for centre-based methods: prototypes that start at centres, and nearest-centre assignment."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.clustering.points import run_shards
from nngcd.clustering.semi_supervised_kmeans import SemiSupervisedKMeans
from nngcd.core import processes
from nngcd.methods.contract import Overview, Task
from nngcd.methods.heads import Prototypes
from nngcd.methods.splitting import SearchingMethod, changed_means


def semi_supervised_centres(
    overview: Overview, n_clusters: int, *, init: Literal["matched", "published"] = "matched", n_init: int = 10
) -> Tensor:
    """Return the centres of semi-supervised k-means of the normalised features; centre k < n_old is old class k.

    With several processes, each clusters its share of the images, and all find the same centres.
    """
    k_means = SemiSupervisedKMeans(
        n_clusters, init=init, n_init=n_init, random_state=overview.seed, shards=run_shards()
    )  # fmt: skip
    own = processes.share(len(overview.features_nd))
    return k_means.fit(F.normalize(overview.features_nd[own], dim=-1), overview.labels_n[own]).cluster_centers_


def semi_supervised_clusters(
    overview: Overview,
    n_clusters: int,
    *,
    init: Literal["matched", "published"] | Tensor,
    n_init: int,
    max_iter: int,
    size_limit: int | None,
) -> tuple[Tensor, Tensor]:
    """Return cluster_n, labelled images in the cluster of their class, and centres_kd of the normalised features.

    `init` may be the centres_kd to start from. A class without a labelled image gets one of the free clusters. Every
    process clusters all images: a limit on sizes cannot be kept by shares of them.
    """
    labels_n = overview.labels_n.to(overview.features_nd.device)
    given_c = labels_n[labels_n >= 0].bincount().nonzero().flatten()
    others = torch.ones(n_clusters, dtype=torch.bool, device=given_c.device).index_fill(0, given_c, False)
    class_k = torch.cat([given_c, others.nonzero().flatten()])
    label_n = torch.where(labels_n >= 0, torch.searchsorted(given_c, labels_n), -1)
    start = init[class_k] if isinstance(init, Tensor) else init
    k_means = SemiSupervisedKMeans(
        n_clusters, init=start, n_init=n_init, max_iter=max_iter, size_limit=size_limit, random_state=overview.seed
    ).fit(F.normalize(overview.features_nd, dim=-1), label_n)
    return class_k[k_means.labels_], k_means.cluster_centers_[class_k.argsort()]


def place_prototypes(prototypes: Prototypes, overview: Overview) -> None:
    """Turn each prototype towards the centre of its cluster: old classes where their labels are, new ones in between.

    The centres are those of semi-supervised k-means of the normalised features.
    """
    prototypes.turn(semi_supervised_centres(overview, len(prototypes.used_kd)))


class CentreMethod(SearchingMethod):
    """A method whose result is one centre per cluster, in the space of normalised features."""

    without_search = "loss.split_at_end=false"

    def __init__(self, config: Any, task: Task) -> None:  # noqa: ANN401 (each method has its own Config)
        super().__init__(config, task)
        self.register_buffer("centres_kd", torch.zeros(task.n_clusters, task.n_features))
        self.centres_kd: Tensor
        self.remember_moves()

    @property
    def n_clusters(self) -> int:
        """The number of centres."""
        return len(self.centres_kd)

    @torch.no_grad()
    def search_at_end(self, overview: Overview) -> None:
        """Give each new category hidden in a known cluster its own centre, if `split_at_end` is set."""
        if not self.config.split_at_end:
            return
        # The number may fall, not grow: a split that no merge pays for can add a cluster to well separated ones, which
        # later epochs could take back and a last step cannot.
        k_range = self.task.k_range and (self.task.k_range[0], self.n_clusters)
        moved = self.search(overview, k_range)
        centres_kd = self.centres_kd[: moved.n_clusters].clone()
        mean_md, cluster_m = changed_means(moved, F.normalize(overview.features_nd, dim=-1))
        self.centres_kd = centres_kd.index_copy(0, cluster_m, mean_md)

    def assign(self, features_nd: Tensor) -> Tensor:
        """Return scores whose arg max is the nearest centre: -|x - c|^2 / 2, up to a term that all centres share."""
        unit_nd = F.normalize(features_nd, dim=-1)
        scores_nk: Tensor = unit_nd @ self.centres_kd.T - self.centres_kd.square().sum(-1) / 2
        temperature: float = self.config.temperature
        return scores_nk / temperature
