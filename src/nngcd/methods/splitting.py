"""What methods with prototypes share that search known clusters for new categories between epochs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.clustering.split_and_merge import Moved, split_and_merge
from nngcd.heads import Prototypes
from nngcd.methods.contract import BaseMethod, ClusterMerge, KnownSplit, NewSplit, Overview

ROWS_PER_BLOCK = 8192
"""Images whose scores exist at a time."""


class SplittingMethod(BaseMethod):
    """A method with prototypes and the settings `split_epochs` and `split_level`."""

    prototypes: Prototypes
    teacher: Prototypes | None
    """Averaged prototypes, for a method that has them; they are placed and turned with the others."""
    splits_s7: Tensor
    """What was split, each row a `KnownSplit`."""
    cuts_c5: Tensor
    """Which new clusters were split, each row a `NewSplit`."""
    merges_m5: Tensor
    """What was merged, each row a `ClusterMerge`."""

    def new_prototypes(self, learning_rate: float | None = None) -> Prototypes:
        """Return prototypes at random, with room for those that moves may add."""
        task = self.task
        most = task.k_range[1] if task.k_range and self.config.split_epochs else None
        return Prototypes(
            task.n_features, task.n_clusters, generator=task.generator, learning_rate=learning_rate, most=most
        )

    def remember_moves(self) -> None:
        """Make room for what will be split and merged; for the end of a method's `__init__`."""
        # Not whole numbers, which a checkpoint takes for places of images.
        self.register_buffer("splits_s7", torch.zeros(0, 7, dtype=torch.float64), persistent=False)
        self.register_buffer("cuts_c5", torch.zeros(0, 5, dtype=torch.float64), persistent=False)
        self.register_buffer("merges_m5", torch.zeros(0, 5, dtype=torch.float64), persistent=False)
        if self.config.split_epochs:
            self.remembers = (*self.remembers, "splits_s7", "cuts_c5", "merges_m5")

    @property
    def n_clusters(self) -> int:
        """How many prototypes there are."""
        return int(self.prototypes.n_used)

    def known_splits(self) -> list[KnownSplit]:
        """Return which known clusters were split in training."""
        return [KnownSplit._make([*map(int, row[:6]), row[6]]) for row in self.splits_s7.tolist()]

    def new_splits(self) -> list[NewSplit]:
        """Return which new clusters were split in training."""
        return [NewSplit._make([*map(int, row[:3]), *row[3:]]) for row in self.cuts_c5.tolist()]

    def cluster_merges(self) -> list[ClusterMerge]:
        """Return which new clusters were merged in training."""
        return [ClusterMerge._make([*map(int, row[:3]), *row[3:]]) for row in self.merges_m5.tolist()]

    @torch.no_grad()
    def split_and_merge(self, overview: Overview) -> None:
        """Give each new category that hides in a known cluster a prototype of its own.

        It is that of one of two new clusters that are alike, or one more where the number of clusters is not given.
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
            n_clusters=self.n_clusters,
            level=self.config.split_level,
            k_range=self.task.k_range,
        )
        self._record(moved, overview.epoch)
        self.turn_to_means(moved, unit_nd)

    def _record(self, moved: Moved, epoch: int) -> None:
        """Remember what was moved, and why."""
        splits = [KnownSplit(part.cluster, epoch, *part[2:]) for part in moved.splits]
        cuts = [NewSplit(epoch, len(cut.image_m), cut.n_images, cut.gain, moved.limit) for cut in moved.cuts]
        merges = [ClusterMerge(epoch, m.n_kept, m.n_freed, m.cost, moved.limit) for m in moved.merges]
        self.splits_s7 = _with_rows(self.splits_s7, splits)
        self.cuts_c5 = _with_rows(self.cuts_c5, cuts)
        self.merges_m5 = _with_rows(self.merges_m5, merges)

    def trim(self) -> None:
        """Let go of prototypes that were never added."""
        for prototypes in (self.prototypes, self.teacher):
            if prototypes is not None:
                prototypes.trim()

    def turn_to_means(self, moved: Moved, unit_nd: Tensor) -> None:
        """Turn the prototypes of clusters that have changed to the means of their images."""
        sum_kd = unit_nd.new_zeros(moved.n_clusters, unit_nd.shape[1]).index_add_(0, moved.cluster_n, unit_nd)
        # A cluster without images keeps its direction.
        cluster_m = moved.cluster_m[sum_kd[moved.cluster_m].any(-1)]
        for prototypes in (self.prototypes, self.teacher):
            if prototypes is not None:
                prototypes.resize(moved.n_clusters)
                prototypes.turn(sum_kd[cluster_m], cluster_m)


def _with_rows(table_rc: Tensor, rows: Sequence[tuple[float, ...]]) -> Tensor:
    return torch.cat([table_rc, table_rc.new_tensor(rows).reshape(-1, table_rc.shape[1])])
