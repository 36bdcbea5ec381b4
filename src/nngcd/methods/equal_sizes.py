"""Shared code for methods whose categories are clusters of equal size: InfoSieve and SelEx."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from nngcd.core.ranges import AtLeastOne, Share
from nngcd.methods import gcd
from nngcd.methods.batches import Batches, Labels, batches_by_share
from nngcd.methods.centres import CentreMethod, semi_supervised_clusters
from nngcd.methods.contract import Overview


@dataclass(frozen=True, kw_only=True, slots=True)
class EqualSizesConfig(gcd.CentreConfig):
    """Settings of pseudo-labels and clusters of equal size."""

    n_starts: AtLeastOne = 10
    """Starts of semi-supervised k-means at the end; the one with the least inertia is kept."""
    epoch_starts: AtLeastOne = 10
    """Starts of semi-supervised k-means before each epoch, for the pseudo-labels."""
    n_iterations: AtLeastOne = 10
    """Most iterations of each start."""
    unbalanced: bool = False
    """Whether categories may differ in size; if not, each gets at most its equal share of the images."""
    sampling: Literal["balanced", "share"] = "balanced"
    """Make-up of batches: half labelled, or each unlabelled image with a weight equal to the labelled share, as in
    the authors' code (57 % labelled on CUB)."""
    smoothing: Share = 0.5
    """Share of the unsupervised contrast's target that is spread over all views, in [0, 1]: 1 on CUB, 0.5 on other
    fine-grained and 0.1 on generic data. At 1 the two views of an image no longer attract each other."""


class EqualSizesMethod(CentreMethod):
    """A method that clusters all images before each epoch and at the end, each cluster with its equal share."""

    config: EqualSizesConfig

    def draw(self, labels: Labels, batch_size: int, generator: torch.Generator, *, drop_last: bool = True) -> Batches:
        """Return the images of each batch of an epoch, drawn as `sampling` says."""
        drawn = batches_by_share if self.config.sampling == "share" else super().draw
        return drawn(labels, batch_size, generator, drop_last=drop_last)

    @torch.no_grad()
    def settle(self, overview: Overview) -> Tensor | None:
        """Find the centres; return the clusters of equal size, which the nearest centre alone does not give."""
        cluster_n = self.cluster(overview, self.config.n_starts)
        return None if self.config.unbalanced else cluster_n

    def cluster(self, overview: Overview, n_starts: int, start_kd: Tensor | None = None) -> Tensor:
        """Return cluster_n of semi-supervised k-means, and keep its centres."""
        start = self.config.cluster_start if start_kd is None else start_kd
        cluster_n, centres_kd = self.clusters(overview, self.task.n_clusters, init=start, n_starts=n_starts)
        self.centres_kd.copy_(centres_kd)
        return cluster_n

    def clusters(
        self, overview: Overview, n_clusters: int, *, init: Literal["matched", "published"] | Tensor, n_starts: int
    ) -> tuple[Tensor, Tensor]:
        """Return cluster_n and centres_kd of so many clusters, of equal size unless `unbalanced`."""
        equal_share = -(-len(overview.labels_n) // n_clusters)
        return semi_supervised_clusters(
            overview, n_clusters, init=init, n_init=n_starts, max_iter=self.config.n_iterations,
            size_limit=None if self.config.unbalanced else equal_share,
        )  # fmt: skip
