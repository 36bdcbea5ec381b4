"""What methods with prototypes share that search known clusters for new categories between epochs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.clustering.split_and_merge import Moved, split_and_merge
from nngcd.heads import Prototypes
from nngcd.methods.contract import BaseMethod, KnownSplit, Overview

ROWS_PER_BLOCK = 8192
"""Images whose scores exist at a time."""


class SplittingMethod(BaseMethod):
    """A method with prototypes and the settings `split_epochs` and `split_level`."""

    prototypes: Prototypes
    teacher: Prototypes | None
    """Averaged prototypes, for a method that has them; they are placed and turned with the others."""
    splits_s7: Tensor
    """What was split, each row a `KnownSplit`."""

    def remember_splits(self) -> None:
        """Make room for what will be split; for the end of a method's `__init__`."""
        # Not whole numbers, which a checkpoint takes for places of images.
        self.register_buffer("splits_s7", torch.zeros(0, 7, dtype=torch.float64), persistent=False)
        if self.config.split_epochs:
            self.remembers = (*self.remembers, "splits_s7")

    def known_splits(self) -> list[KnownSplit]:
        """Return which known clusters were split in training."""
        return [KnownSplit._make([*map(int, row[:6]), row[6]]) for row in self.splits_s7.tolist()]

    @torch.no_grad()
    def split_and_merge(self, overview: Overview) -> None:
        """Give each new category that hides in a known cluster the prototype of one of two new clusters that are alike.

        Prototypes are turned to the images they now stand for.
        """
        unit_nd = F.normalize(overview.features_nd, dim=-1)
        blocks = torch.split(overview.features_nd, ROWS_PER_BLOCK)
        moved = split_and_merge(
            unit_nd,
            unit_nd if overview.plain_nd is None else overview.plain_nd.to(unit_nd),
            torch.cat([self.assign(block_bd).argmax(-1) for block_bd in blocks]),
            overview.labels_n.to(unit_nd.device),
            n_old=self.task.n_old,
            n_clusters=self.task.n_clusters,
            level=self.config.split_level,
        )
        facts = [KnownSplit(part.cluster, overview.epoch, *part[2:]) for part in moved.splits]
        self.splits_s7 = torch.cat([self.splits_s7, self.splits_s7.new_tensor(facts).reshape(-1, 7)])
        self.turn_to_means(moved, unit_nd)

    def turn_to_means(self, moved: Moved, unit_nd: Tensor) -> None:
        """Turn the prototypes of clusters that have changed to the means of their images."""
        sum_kd = unit_nd.new_zeros(self.task.n_clusters, unit_nd.shape[1]).index_add_(0, moved.cluster_n, unit_nd)
        # A cluster without images keeps its direction.
        cluster_m = moved.cluster_m[sum_kd[moved.cluster_m].any(-1)]
        for prototypes in (self.prototypes, self.teacher):
            if prototypes is not None:
                prototypes.turn(sum_kd[cluster_m], cluster_m)
