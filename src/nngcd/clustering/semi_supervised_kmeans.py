"""k-means that knows some labels: labelled rows stay in the cluster of their class, the others join the nearest."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from nngcd.clustering.kmeans import Centroids, KMeans, given_centres
from nngcd.clustering.lloyd import NO_CLUSTER, Starts, class_sums, gains, lloyd, means, scores
from nngcd.clustering.points import (
    WIDE,
    Points,
    Rows,
    Shards,
    check_settings,
    check_whole,
    total,
)
from nngcd.clustering.seeding import add_centres
from nngcd.clustering.whitening import whitened_points
from nngcd.core.errors import ConfigError, DataError
from nngcd.core.seeds import torch_generator
from nngcd.metrics.matching import UNMATCHED, match_clusters

INERTIA_MARGIN = 1e-3
"""Share by which the start found in whitened rows may exceed the least inertia; it does by 3e-4 on digits."""


@dataclass(eq=False)
class SemiSupervisedKMeans(Centroids):
    """Semi-supervised k-means (GCD, Vaze et al. 2022): cluster k < n_old *is* the labelled class k.

    Fitted attributes as for `KMeans`; `labels_` keeps labelled rows in their class, `predict` asks only which centre
    is nearest. The authors' code gives NaN for an empty cluster; here it is set on the farthest unlabelled row.
    """

    n_clusters: int
    """K: labelled classes and new ones together."""
    _: KW_ONLY
    init: Literal["matched", "published"] | Rows = "matched"
    """Choice of the first centres: `published` takes the means of the labelled classes and draws the others by
    k-means++ among unlabelled rows. `matched` tries the same starts, and as many more: each is a plain k-means of all
    rows, in which a labelled class is given its match, a cluster with at least half of its labelled rows, or, where
    there is none, its labelled mean in place of the new centre that is missed least. It does so twice: what is best in
    rows whitened within the labelled classes is one more start, and kept unless another has clearly less inertia.
    Centres make one start."""
    n_init: int = 10
    """Starts of each kind; the one with the least inertia at the end is kept. GCD's scripts use 100."""
    max_iter: int = 200
    tol: float = 1e-4
    """A start has settled when (sum over the centres of how far each moved)^2 is at most this, as in GCD's code, which
    has unit features in mind; unless `published`, it is a share of the rows' variance, so that their scale is no
    matter."""
    size_limit: int | None = None
    """No cluster grows above this; rows too many go to the next nearest centre (InfoSieve: ceil(N / K)). None: any
    size. A class with more labelled rows than this keeps them all."""
    random_state: int = 0
    block_size: int = 4096
    """Rows per matrix product; changes memory and speed, not the result."""
    shards: Shards | None = field(default=None, repr=False)
    """As for `KMeans`."""

    def fit(self, X: Rows, y: Rows | None = None) -> SemiSupervisedKMeans:  # noqa: N803 (scikit-learn's name)
        """Find the clusters of the rows.

        Args:
            X: (n, d) features.
            y: (n,) label of each row, 0 to n_old - 1, and -1 for unlabelled rows; None: all are unlabelled.

        Raises:
            ConfigError: a setting has a value it cannot have, for example fewer clusters than labelled classes.
            DataError: the rows are not finite numbers, or the labels do not fit.
        """
        points = self._prepared(X, y)
        check_settings(points, self)
        self._check_size_limit(points)
        mean_cd = class_means(points)
        if len(mean_cd) > self.n_clusters:
            raise ConfigError("n_clusters", self.n_clusters, f"must be at least the {len(mean_cd)} labelled classes")
        is_matched = isinstance(self.init, str) and self.init == "matched"
        first_rkd = self._first_centres(points, mean_cd)
        whitened = whitened_points(points) if is_matched else None
        if whitened is None:
            self._keep_best(points, self._settled(points, first_rkd))
        else:
            starts = self._settled(points, torch.cat([first_rkd, self._start_found_in(whitened, points)]))
            self._keep_best(points, last_unless_clearly_worse(starts))
        return self

    def _settled(self, points: Points, first_rkd: Tensor) -> Starts:
        is_published = isinstance(self.init, str) and self.init == "published"
        limit = self.tol * (1 if is_published else total(points, points.norm_n) / points.n_total)
        assign = None if self.size_limit is None else partial(balanced_clusters, size_limit=self.size_limit)
        return lloyd(points, first_rkd, lambda move_rk: move_rk.sum(1).square() <= limit, self.max_iter, assign)

    def _start_found_in(self, whitened: Points, points: Points) -> Tensor:
        """Return as 1kd the centres that the best clusters of the whitened rows have among the rows as they are."""
        starts = self._settled(whitened, self._first_centres(whitened, class_means(whitened)))
        cluster_1n = starts[1][int(np.argmin(starts[2]))][None]
        total_1ke = gains(points, torch.full_like(cluster_1n, NO_CLUSTER), cluster_1n, self.n_clusters)
        return means(points, cluster_1n, total_1ke, points.x_nd.new_zeros(1, self.n_clusters, len(points.mean_d)))

    def _first_centres(self, points: Points, mean_cd: Tensor) -> Tensor:
        if not isinstance(self.init, str):
            return given_centres(points, self.init, self.n_clusters)
        if self.init not in ("matched", "published"):
            raise ConfigError("init", self.init, "must be matched or published")
        generator = torch_generator(self.random_state, "semi-supervised k-means++")
        published_rkd = add_centres(points, mean_cd.repeat(self.n_init, 1, 1), self.n_clusters, generator)
        if self.init == "published":
            return published_rkd
        plain = KMeans(self.n_clusters, n_init=self.n_init, random_state=self.random_state)
        free = points._replace(label_n=torch.full_like(points.label_n, -1))
        centres_rkd, cluster_rn, _, _ = plain.fit_starts(free)
        plain_starts = zip(centres_rkd, cluster_rn, strict=True)
        return torch.cat(
            [torch.stack([matched_centres(points, mean_cd, *start) for start in plain_starts]), published_rkd]
        )

    def _check_size_limit(self, points: Points) -> None:
        if self.size_limit is None:
            return
        check_whole(size_limit=self.size_limit)
        if self.size_limit * self.n_clusters < points.n_total:
            room = f"{self.n_clusters} clusters of at most this size cannot hold {points.n_total} rows"
            raise ConfigError("size_limit", self.size_limit, f"{room}; {-(-points.n_total // self.n_clusters)} can")
        if points.shards.count > 1:
            raise ConfigError("size_limit", self.size_limit, "needs all rows in one process; leave it out with shards")


def last_unless_clearly_worse(starts: Starts) -> Starts:
    """Return the last start alone if its inertia is next to the least; else all.

    Many partitions have nearly the least inertia, and among these inertia says nothing about classes.
    """
    inertias = starts[2]
    if inertias[-1] > (1 + INERTIA_MARGIN) * min(inertias):
        return starts
    centres_rkd, cluster_rn, _, n_iter_r = starts
    return centres_rkd[-1:], cluster_rn[-1:], inertias[-1:], n_iter_r[-1:]


def class_means(points: Points) -> Tensor:
    """Return mean_cd: the mean of the labelled rows of each class, over all shards."""
    highest = int(points.shards.gather(points.label_n.max()).max())
    if highest >= points.n_total:
        # Reported before the sums of all classes are made, which might not fit into memory.
        reason = f"label {highest} is too high for {points.n_total} rows"
        raise DataError(f"{reason}; number the labelled classes 0, 1, 2, ... without gaps")
    total_ce = class_sums(points)
    missing = (total_ce[:, -1] == 0).nonzero().flatten().tolist()
    if missing:
        raise DataError(
            f"class {missing[0]} has no labelled row; number the labelled classes 0, 1, 2, ... without gaps"
        )
    return (total_ce[:, :-1] / total_ce[:, -1:]).to(points.x_nd)


def matched_centres(points: Points, mean_cd: Tensor, plain_kd: Tensor, cluster_n: Tensor) -> Tensor:
    """Return the centres of plain k-means of all rows, reordered so that centre k < n_old is that of class k.

    Plain k-means sees where all rows lie, so that new classes start in their middle; k-means++ given the old means
    starts them on single rows, often two in one class and none in another.

    A class without a cluster of its own starts at its labelled mean. A left-over cluster has none of its images, and
    would tie it to a crowd elsewhere, most likely a new class. The same holds for a match that has less than half of
    the class's images, which the Hungarian matching makes of a few strays rather than leave a class out. One cluster
    is then too many: of those left over, the one is dropped whose rows lose least by going to their next nearest
    centre, typically half of a class that k-means had cut in two.
    """
    cluster_c = _matched_clusters(points, cluster_n, len(plain_kd), len(mean_cd))
    old_cd = torch.where((cluster_c >= 0)[:, None], plain_kd[cluster_c], mean_cd)
    is_left_k = torch.ones(len(plain_kd), dtype=torch.bool, device=cluster_c.device)
    is_left_k[cluster_c[cluster_c >= 0]] = False
    return drop_centres(points, torch.cat([old_cd, plain_kd[is_left_k]]), len(mean_cd), len(plain_kd))


def drop_centres(points: Points, centres_kd: Tensor, n_old: int, n_clusters: int) -> Tensor:
    """Return the centres without those new ones whose loss makes free rows' squared distances grow least, one by one.

    Each row's nearest two centres are kept in mind, and looked for again only when one of the two is dropped.
    """
    score_n2 = points.x_nd.new_zeros(len(points.x_nd), 2)
    centre_n2 = torch.zeros_like(score_n2, dtype=torch.long)
    is_dropped_k = torch.zeros(len(centres_kd), dtype=torch.bool, device=centres_kd.device)
    is_stale_n = points.label_n < 0
    for _ in range(len(centres_kd) - n_clusters):
        for row_b in torch.split(is_stale_n.nonzero().flatten(), points.block_size):
            score_bk = scores(points.x_nd[row_b], centres_kd[None])[:, 0].masked_fill(is_dropped_k, -torch.inf)
            score_n2[row_b], centre_n2[row_b] = score_bk.topk(2)
        cost_k = torch.zeros(len(centres_kd), dtype=WIDE, device=centres_kd.device)
        cost_k.index_add_(0, centre_n2[:, 0], 2 * (score_n2[:, 0] - score_n2[:, 1]).to(WIDE))
        cost_k = points.shards.all_reduce(cost_k).masked_fill(is_dropped_k, torch.inf)
        drop = n_old + int(cost_k[n_old:].argmin())
        is_dropped_k[drop] = True
        is_stale_n = (centre_n2 == drop).any(1) & (points.label_n < 0)
    return centres_kd[~is_dropped_k]


def balanced_clusters(points: Points, centres_rkd: Tensor, *, size_limit: int) -> Tensor:
    """Return cluster_rn with no more than `size_limit` rows in a cluster: each start on its own.

    InfoSieve (Rastegar et al. 2023) makes clusters of equal size that way: a full cluster keeps its nearest rows, and
    the others go to their next nearest centre that has room or holds a row farther off, which then moves on. In the
    end no free row is nearer to another centre that has room, or that holds a free row farther off.
    """
    return torch.stack([_balanced(points, centres_kd, size_limit) for centres_kd in centres_rkd])


def _balanced(points: Points, centres_kd: Tensor, size_limit: int) -> Tensor:
    cluster_n = points.label_n.clone()
    closeness_n = points.x_nd.new_full((len(cluster_n),), torch.inf)  # labelled rows are never sent away
    farthest_k = points.x_nd.new_full((len(centres_kd),), -torch.inf)  # only a full cluster turns rows away
    while len(homeless := (cluster_n < 0).nonzero().flatten()):
        for row_b in torch.split(homeless, points.block_size):
            x_bd = points.x_nd[row_b]
            closeness_bk = 2 * scores(x_bd, centres_kd[None])[:, 0] - x_bd.square().sum(1, keepdim=True)
            closeness_bk = closeness_bk.masked_fill(closeness_bk <= farthest_k, -torch.inf)
            closeness_n[row_b], cluster_n[row_b] = closeness_bk.max(1)
        nearest_first = closeness_n.argsort(descending=True, stable=True)
        by_cluster = nearest_first[cluster_n[nearest_first].argsort(stable=True)]
        size_k = cluster_n.bincount(minlength=len(centres_kd))
        first_k = size_k.cumsum(0) - size_k
        place_n = torch.arange(len(cluster_n), device=size_k.device) - first_k[cluster_n[by_cluster]]
        sent_away = by_cluster[(place_n >= size_limit) & (points.label_n[by_cluster] < 0)]
        is_full_k = size_k >= size_limit
        last_k = by_cluster[(first_k + size_limit - 1)[is_full_k]]
        farthest_k[is_full_k] = closeness_n[last_k]
        cluster_n[sent_away] = -1
    return cluster_n


def _matched_clusters(points: Points, cluster_n: Tensor, n_clusters: int, n_old: int) -> Tensor:
    """Return the cluster with at least half of a class's labelled rows, for each class; -1 where there is none.

    The Hungarian matching settles who gets a cluster that is the best for several classes.
    """
    is_labelled_n = points.label_n >= 0
    cell_m = cluster_n[is_labelled_n] * n_old + points.label_n[is_labelled_n]
    count_m = points.shards.all_reduce(cell_m.bincount(minlength=n_clusters * n_old)).cpu().numpy()
    count_kc = count_m.reshape(n_clusters, n_old)
    cluster, class_ = (np.repeat(ids, count_m) for ids in np.indices(count_kc.shape).reshape(2, -1))
    class_k = match_clusters(cluster, class_)
    matched_k = np.flatnonzero(class_k != UNMATCHED)
    is_enough_k = 2 * count_kc[matched_k, class_k[matched_k]] >= count_kc.sum(0)[class_k[matched_k]]
    cluster_c = np.full(n_old, UNMATCHED)
    cluster_c[class_k[matched_k[is_enough_k]]] = matched_k[is_enough_k]
    return torch.from_numpy(cluster_c).to(points.x_nd.device)
