"""The search of known clusters for new categories: a record of the moves, and prototypes that follow them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.clustering.label_check import LabelCheck, check_labels
from nngcd.clustering.split_and_merge import Moved, split_and_merge
from nngcd.core.seeds import torch_generator
from nngcd.methods.contract import BaseMethod, ClusterMerge, KnownSplit, MovedImage, NewSplit, Overview
from nngcd.methods.geometry import prototypes_in
from nngcd.methods.heads import Prototypes

MOVES: Final = ("split", "new split", "merge")
ROWS_PER_BLOCK = 8192
"""Images whose scores exist at a time."""


class SearchingMethod(BaseMethod):
    """A method that can search its clusters; its settings have `split_level`."""

    splits_s7: Tensor
    """The known clusters that were split, each row a `KnownSplit`."""
    cuts_c5: Tensor
    """The new clusters that were split, each row a `NewSplit`."""
    merges_m5: Tensor
    """The merged clusters, each row a `ClusterMerge`."""
    moved_r3: Tensor
    """The images of these moves, each row a `MovedImage`."""
    checks_c2: Tensor
    """The check of the labels before the first split: one row, a `LabelCheck`, after the first search."""

    def remember_moves(self) -> None:
        """Create the records of splits and merges; call it at the end of a method's `__init__`."""
        # Not whole numbers, which a checkpoint takes for places of images.
        self.register_buffer("splits_s7", torch.zeros(0, 7, dtype=torch.float64), persistent=False)
        self.register_buffer("cuts_c5", torch.zeros(0, 5, dtype=torch.float64), persistent=False)
        self.register_buffer("merges_m5", torch.zeros(0, 5, dtype=torch.float64), persistent=False)
        self.register_buffer("moved_r3", torch.zeros(0, 3, dtype=torch.float64), persistent=False)
        self.register_buffer("checks_c2", torch.zeros(0, 2, dtype=torch.float64), persistent=False)

    def known_splits(self) -> list[KnownSplit]:
        """Return which known clusters were split."""
        return [KnownSplit._make([*map(int, row[:6]), row[6]]) for row in self.splits_s7.tolist()]

    def new_splits(self) -> list[NewSplit]:
        """Return which new clusters were split."""
        return [NewSplit._make([*map(int, row[:3]), *row[3:]]) for row in self.cuts_c5.tolist()]

    def cluster_merges(self) -> list[ClusterMerge]:
        """Return which new clusters were merged."""
        return [ClusterMerge._make([*map(int, row[:3]), *row[3:]]) for row in self.merges_m5.tolist()]

    def moved_images(self) -> list[MovedImage]:
        """Return which images were put into another cluster."""
        return [MovedImage(MOVES[int(move)], int(n), int(image)) for move, n, image in self.moved_r3.tolist()]

    def label_check(self) -> LabelCheck | None:
        """Return what was found of the labels before anything was split; None without a search."""
        return LabelCheck._make(map(int, self.checks_c2[0])) if len(self.checks_c2) else None

    def search(self, overview: Overview, k_range: tuple[int, int] | None = None) -> Moved:
        """Return the clusters with hidden parts split off and similar ones merged, and record the moves.

        Args:
            overview: all images.
            k_range: how many clusters there may be afterwards; None: as many as before.
        """
        unit_nd, n_old = F.normalize(overview.features_nd, dim=-1), self.task.n_old
        plain_nd = unit_nd if overview.plain_nd is None else overview.plain_nd.to(unit_nd)
        blocks = torch.split(overview.features_nd, ROWS_PER_BLOCK)
        cluster_n = torch.cat([self.assign(block_bd).argmax(-1) for block_bd in blocks])
        labels_n = overview.labels_n.to(unit_nd.device)
        if not len(self.checks_c2):
            generator = torch_generator(overview.seed, "label check")
            check = check_labels(plain_nd, cluster_n, labels_n, n_old=n_old, generator=generator)
            self.checks_c2 = _with_rows(self.checks_c2, [check])
        moved = split_and_merge(
            unit_nd,
            plain_nd,
            cluster_n,
            labels_n,
            n_old=n_old,
            n_clusters=self.n_clusters,
            level=self.config.split_level,
            k_range=k_range,
        )
        self._record(moved, overview.epoch if self.trains else 0)
        return moved

    def _record(self, moved: Moved, epoch: int) -> None:
        """Remember what was moved, and why."""
        splits = [KnownSplit(part.cluster, epoch, *part[2:]) for part in moved.splits]
        cuts = [NewSplit(epoch, len(cut.image_m), cut.n_images, cut.gain, moved.limit) for cut in moved.cuts]
        merges = [ClusterMerge(epoch, m.n_kept, m.n_freed, m.cost, moved.limit) for m in moved.merges]
        n_before = len(self.splits_s7), len(self.cuts_c5), len(self.merges_m5)
        images = [[one.image_m for one in found] for found in (moved.splits, moved.cuts, moved.merges)]
        for kind, (n, found) in enumerate(zip(n_before, images, strict=True)):
            rows = [(kind, n + i, image) for i, image_m in enumerate(found) for image in image_m.tolist()]
            self.moved_r3 = _with_rows(self.moved_r3, rows)
        self.splits_s7 = _with_rows(self.splits_s7, splits)
        self.cuts_c5 = _with_rows(self.cuts_c5, cuts)
        self.merges_m5 = _with_rows(self.merges_m5, merges)


class SplittingMethod(SearchingMethod):
    """A method with prototypes and the settings `split_epochs` and `split_level`."""

    without_search = "loss.split_epochs=0"
    prototypes: Prototypes
    teacher: Prototypes | None
    """Averaged prototypes, for a method that has them."""

    def followers(self) -> list[Prototypes]:
        """Return other prototypes of the same clusters, which are placed and turned alike: the teacher's."""
        return [] if self.teacher is None else [self.teacher]

    def new_prototypes(self, learning_rate: float | None = None) -> Prototypes:
        """Return prototypes at random, with room for those that moves may add."""
        task = self.task
        most = task.k_range[1] if task.k_range and self.config.split_epochs else None
        make = prototypes_in(self.config)
        return make(task.n_features, task.n_clusters, generator=task.generator, learning_rate=learning_rate, most=most)

    def remember_moves(self) -> None:
        """Create the records of splits and merges, and keep them in checkpoints; call it at the end of `__init__`."""
        super().remember_moves()
        if self.config.split_epochs:
            self.remembers = (*self.remembers, "splits_s7", "cuts_c5", "merges_m5", "moved_r3", "checks_c2")

    @property
    def n_clusters(self) -> int:
        """Number of prototypes."""
        return int(self.prototypes.n_used)

    @torch.no_grad()
    def split_and_merge(self, overview: Overview) -> None:
        """Give each new category hidden in a known cluster its own prototype.

        It is freed by merging two similar new clusters, or added if the number of clusters is not fixed. Prototypes
        are turned to the images they now stand for.
        """
        self.turn_to_means(self.search(overview, self.task.k_range), F.normalize(overview.features_nd, dim=-1))

    def trim(self) -> None:
        """Remove prototypes that were never added."""
        for prototypes in (self.prototypes, *self.followers()):
            prototypes.trim()

    def turn_to_means(self, moved: Moved, unit_nd: Tensor) -> None:
        """Turn the prototypes of clusters that have changed to the means of their images."""
        mean_kd, cluster_m = changed_means(moved, unit_nd)
        for prototypes in (self.prototypes, *self.followers()):
            prototypes.resize(moved.n_clusters)
            prototypes.turn(mean_kd, cluster_m)


def changed_means(moved: Moved, unit_nd: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean_md and cluster_m: the means of the clusters that have changed and hold images, and which they are."""
    size_k = moved.cluster_n.bincount(minlength=moved.n_clusters)
    sum_kd = unit_nd.new_zeros(moved.n_clusters, unit_nd.shape[1]).index_add_(0, moved.cluster_n, unit_nd)
    cluster_m = moved.cluster_m[size_k[moved.cluster_m] > 0]
    return sum_kd[cluster_m] / size_k[cluster_m, None], cluster_m


def _with_rows(table_rc: Tensor, rows: Sequence[tuple[float, ...]]) -> Tensor:
    return torch.cat([table_rc, table_rc.new_tensor(rows).reshape(-1, table_rc.shape[1])])
