"""A new category that hides in a known cluster gets one of its own; new clusters that are one thing become one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from nngcd.clustering.hidden_parts import LEAST_IMAGES, Cut, HiddenPart, cut_known_clusters, hidden_parts, part_apart

LEAST_GAIN = 0.5
"""Share of its merge's cost that a split must gain: where all new clusters are far apart, a wrong split would put two
categories into one."""
MOST_APART = 2.5
"""Largest cost of merging two clusters that are one category, in units of the gain from cutting a typical known
cluster in two. Chosen on development tasks (`benchmarks/number_after_moves.py`)."""
LEAST_KNOWN = 2
"""Known clusters it takes to know what is usual."""


class Merge(NamedTuple):
    """Two clusters that need only one centre."""

    kept: int
    """The larger one."""
    freed: int
    cost: float
    """By how much their images are further from it than from their own ones: what `split_gain` is for two parts."""
    n_kept: int
    """Images of the larger one."""
    n_freed: int
    image_m: Tensor
    """Images of the other, which are put into the larger one."""


class NewCut(NamedTuple):
    """A new cluster that is two things."""

    cluster: int
    image_m: Tensor
    """The images of the part that leaves it."""
    n_images: int
    """Images of the whole cluster."""
    gain: float
    """Gain of two centres over one (`split_gain`)."""


class Moved(NamedTuple):
    """Clusters after splits and merges."""

    cluster_n: Tensor
    n_clusters: int
    splits: list[HiddenPart]
    """Of known clusters."""
    cuts: list[NewCut]
    """Of new clusters."""
    merges: list[Merge]
    limit: float
    """Largest cost of merging two clusters that are one category, and least gain of splitting one that is two."""
    cluster_m: Tensor
    """The clusters whose images have changed."""


def split_and_merge(  # noqa: PLR0913 (images, their clusters, their labels, and how many there are)
    unit_nd: Tensor,
    plain_nd: Tensor,
    cluster_n: Tensor,
    labels_n: Tensor,
    *,
    n_old: int,
    n_clusters: int,
    level: float,
    k_range: tuple[int, int] | None = None,
) -> Moved:
    """Return the clusters with hidden parts split off, and new clusters that are one thing merged.

    Args:
        unit_nd: learned features of length 1.
        plain_nd: features that no label has touched; see `hidden_parts`.
        cluster_n: the cluster of each image; labelled images are put into theirs.
        labels_n: -1 for unlabelled images.
        n_old: how many clusters are known.
        n_clusters: how many there are.
        level: the share of the splits that may be wrong, on average.
        k_range: fewest and most clusters there may be. None: their number stays, and a merge pays for each split.
    """
    cluster_n = torch.where(labels_n >= 0, labels_n, cluster_n)
    cuts = cut_known_clusters(unit_nd, cluster_n, labels_n, n_old)
    parts = hidden_parts(cuts, plain_nd, cluster_n, labels_n, n_old=n_old, level=level)
    fewest, most = k_range or (n_clusters, n_clusters)
    limit = MOST_APART * typical_gain(unit_nd, cuts)
    new = _NewClusters(unit_nd, cluster_n, range(n_old, n_clusters), most - n_old)
    splits = [part for part in parts if new.take_hidden(part, limit if k_range else 0.0)]
    new_cuts = [cut for cut in new.find_double(limit) if new.take_cut(cut, limit)]
    while len(new) > fewest - n_old and new.merge_if_one(limit):
        pass
    n_left, cluster_m = new.renumber(n_old)
    return Moved(cluster_n, n_left, splits, new_cuts, new.merges, limit, cluster_m)


class _NewClusters:
    """The new clusters of a search: which there are, and which of them may be merged."""

    def __init__(self, unit_nd: Tensor, cluster_n: Tensor, numbers: range, most: int) -> None:
        self.unit_nd, self.cluster_n, self.numbers, self.most = unit_nd, cluster_n, [*numbers], most
        self._next = numbers.stop
        self.merges: list[Merge] = []
        # What a part was given, or was taken from, is not merged away again in the same search.
        self._given, self._changed = set[int](), set[int]()

    def __len__(self) -> int:
        return len(self.numbers)

    def take_hidden(self, part: HiddenPart, limit: float) -> bool:
        """Give a part of a known cluster a cluster of its own, and return whether it got one.

        It is that of two clusters that are one thing, else one more if there may be more, else that of two clusters
        that are most alike, if the part gains enough by it.
        """
        merge = self._cheapest()
        is_one = merge is not None and merge.cost <= limit
        if not is_one and len(self) < self.most:
            self._place(part, None)
        elif merge is not None and (is_one or self._gain(part) >= LEAST_GAIN * merge.cost):
            self._place(part, merge)
        else:
            return False
        return True

    def find_double(self, limit: float) -> list[NewCut]:
        """Return the clusters that gain more than parts of one category by two centres, the largest gain first."""
        found = []
        for number in self._open() if limit > 0 else []:
            image_m = (self.cluster_n == number).nonzero().flatten()
            if len(image_m) < 2 * LEAST_IMAGES:
                continue
            is_part_m = part_apart(self.unit_nd[image_m], torch.zeros_like(image_m, dtype=torch.bool))
            if 0 < is_part_m.sum() < len(image_m):
                gain = split_gain(self.unit_nd[image_m[is_part_m]], self.unit_nd[image_m[~is_part_m]])
                found.append(NewCut(number, image_m[is_part_m], len(image_m), gain))
        return sorted((cut for cut in found if cut.gain > limit), key=lambda cut: -cut.gain)

    def take_cut(self, cut: NewCut, limit: float) -> bool:
        """Give a part of a new cluster that of two others which are one thing, else one more if there may be more."""
        if cut.cluster in self._given or cut.cluster not in self.numbers:
            return False
        merge = self._cheapest(but=cut.cluster)
        is_one = merge is not None and merge.cost <= limit
        if not is_one and len(self) >= self.most:
            return False
        self._place(cut, merge if is_one else None)
        self._given.add(cut.cluster)
        return True

    def merge_if_one(self, limit: float) -> bool:
        """Merge the two clusters that are most alike if they are one thing, and return whether they were."""
        merge = self._cheapest()
        if merge is None or not merge.cost <= limit:
            return False
        self._merge(merge)
        return True

    def renumber(self, n_old: int) -> tuple[int, Tensor]:
        """Number the clusters without gaps; return how many there are, known ones included, and which have changed."""
        n_left = n_old + len(self)
        free = sorted(set(range(n_old, n_left)) - set(self.numbers))
        for number in sorted(number for number in self.numbers if number >= n_left):
            self.cluster_n[self.cluster_n == number] = free[0]
            self._changed.add(free.pop(0))
        changed = sorted(number for number in self._changed if number < n_left)
        return n_left, torch.tensor(changed, dtype=torch.int64, device=self.cluster_n.device)

    def _open(self) -> list[int]:
        return [number for number in self.numbers if number not in self._given]

    def _cheapest(self, *, but: int | None = None) -> Merge | None:
        open_ = [number for number in self._open() if number != but]
        if len(open_) < 2:
            return None
        return cheapest_merge(self.unit_nd, self.cluster_n, torch.tensor(open_, device=self.cluster_n.device))

    def _place(self, part: HiddenPart | NewCut, merge: Merge | None) -> None:
        """Put a part into a cluster that a merge frees, or into one more."""
        number = self._next if merge is None else self._merge(merge)
        self._next += merge is None
        self.cluster_n[part.image_m] = number
        self.numbers.append(number)
        self._given.add(number)
        self._changed |= {part.cluster, number}

    def _gain(self, part: HiddenPart) -> float:
        is_rest_n = self.cluster_n == part.cluster
        is_rest_n[part.image_m] = False
        return split_gain(self.unit_nd[part.image_m], self.unit_nd[is_rest_n])

    def _merge(self, merge: Merge) -> int:
        self.cluster_n[self.cluster_n == merge.freed] = merge.kept
        self.numbers.remove(merge.freed)
        self._changed |= {merge.kept, merge.freed}
        self.merges.append(merge)
        return merge.freed


def typical_gain(unit_nd: Tensor, cuts: Sequence[Cut]) -> float:
    """Return what cutting the median known cluster in two gains; 0 where too few known clusters can be cut.

    Args:
        unit_nd: learned features of length 1.
        cuts: the known clusters, as `cut_known_clusters` cuts them.
    """
    gains = [
        split_gain(unit_nd[image_m[is_part_m]], unit_nd[image_m[~is_part_m]])
        for _, image_m, is_part_m in cuts
        if 0 < is_part_m.sum() < len(is_part_m)
    ]
    return float(torch.tensor(gains).median()) if len(gains) >= LEAST_KNOWN else 0.0


def split_gain(part_md: Tensor, rest_md: Tensor) -> float:
    """Return how much nearer the images of a part and of the rest are to centres of their own (Ward's criterion)."""
    apart = (part_md.mean(0) - rest_md.mean(0)).square().sum()
    return float(apart * len(part_md) * len(rest_md) / (len(part_md) + len(rest_md)))


def cheapest_merge(unit_nd: Tensor, cluster_n: Tensor, cluster_m: Tensor) -> Merge:
    """Return the two clusters whose images lose least by having one centre (Ward's criterion).

    Args:
        unit_nd: features of length 1.
        cluster_n: the cluster of each image.
        cluster_m: the clusters that may be merged, at least two.
    """
    cost_mm, size_m = merge_costs(unit_nd, cluster_n, cluster_m), _sizes(cluster_n, cluster_m)
    first, second = divmod(int(cost_mm.argmin()), len(cluster_m))
    if size_m[first] < size_m[second]:
        first, second = second, first
    sizes = int(size_m[first]), int(size_m[second])
    kept, freed = int(cluster_m[first]), int(cluster_m[second])
    image_m = (cluster_n == freed).nonzero().flatten()
    return Merge(kept, freed, float(cost_mm[first, second]), *sizes, image_m)


def merge_costs(unit_nd: Tensor, cluster_n: Tensor, cluster_m: Tensor) -> Tensor:
    """Return cost_mm: how much the images of two clusters lose by having one centre (Ward's criterion).

    Args:
        unit_nd: features of length 1.
        cluster_n: the cluster of each image.
        cluster_m: the clusters in question.
    """
    n_clusters = int(torch.cat([cluster_n, cluster_m]).max()) + 1
    size_m = _sizes(cluster_n, cluster_m).to(unit_nd.dtype)
    sum_kd = unit_nd.new_zeros(n_clusters, unit_nd.shape[1]).index_add_(0, cluster_n, unit_nd)
    return ward_costs(sum_kd[cluster_m] / size_m.clamp_min(1)[:, None], size_m)


def ward_costs(mean_md: Tensor, size_m: Tensor) -> Tensor:
    """Return cost_mm: how much the images of two clusters lose by having one centre, infinite for one with itself.

    Args:
        mean_md: the mean of the images of each cluster.
        size_m: how many images each has, as floating-point numbers.
    """
    apart_mm = torch.cdist(mean_md, mean_md).square()
    cost_mm = apart_mm * size_m[:, None] * size_m / (size_m[:, None] + size_m).clamp_min(1)
    return cost_mm.fill_diagonal_(torch.inf)


def _sizes(cluster_n: Tensor, cluster_m: Tensor) -> Tensor:
    """Return how many images each of some clusters has."""
    return cluster_n.bincount(minlength=int(cluster_m.max()) + 1 if len(cluster_m) else 0)[cluster_m]
