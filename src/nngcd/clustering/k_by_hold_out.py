"""K from how well neighbour clustering finds labelled classes that it was not told of: CiPR's estimate."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from nngcd.clustering.k_scores import (
    Flags,
    Floats,
    Ids,
    KEstimate,
    Steps,
    Task,
    best_number,
    coarse_numbers,
    draws_of_classes,
    estimate_of_scores,
    numbered,
    numbers_around,
    only_pairs,
    right_by_class,
    silhouette_of_rows,
)
from nngcd.clustering.snc import merge_closest, partitions
from nngcd.clustering.whitening import whitened_within_classes
from nngcd.core.seeds import numpy_generator

N_HOLD_OUTS = 5
N_COARSE = 20
N_AROUND = 24
N_SILHOUETTE_ROWS = 2048


@dataclass(frozen=True, slots=True)
class HoldOut:
    """The task with the labels of some classes hidden."""

    x_nd: Tensor
    """Features, whitened without the hidden labels."""
    known_n: Ids
    """Labels that the clustering is told."""
    held_n: Ids
    """Labels that are hidden, -1 for all other images."""
    levels: list[Ids]
    """SNC's hierarchy, finest level first."""
    rows: Ids
    """The unlabelled images whose silhouette is computed."""
    distance_mm: Floats
    """Their cosine distances."""


class Score(NamedTuple):
    """How good one partition of one hold-out is."""

    silhouette: float
    right_c: Floats
    """Held-out images of each class that are right."""


def by_hold_out(task: Task) -> KEstimate | None:
    """Return the K with the best product of silhouette and accuracy on held-out classes; None if labels are too few.

    CiPR (Hao, Han & Wong, TMLR 2024, section 3.3): the labels of a fifth of the labelled classes (two fifths of 5 or
    fewer) are hidden from SNC; each level is scored, each score brought to [0, 1], and where the product is best, the
    two closest clusters are merged one pair at a time between the neighbouring levels. Departures:

    - Five hold-outs instead of one, together holding out every class; one alone can differ from the next by half.
    - Besides the levels of all five, a geometric grid of numbers is scored, each made by merges from the level above,
      and then the numbers between the neighbours of the best: hold-outs can only be averaged at the same K.
    - Features are whitened within the classes that are not held out.
    """
    class_n = only_pairs(task.class_n)
    held_hc = held_out_classes(int(class_n.max()) + 1, numpy_generator(task.seed, "hold-out"))
    hold_outs = [_hold_out(task, class_n, is_held_c) for is_held_c in held_hc]
    finest = min((_n_clusters(hold_out.levels[0]) for hold_out in hold_outs), default=0)
    first, last = max(task.first, 2), min(finest, task.last) if task.is_range_given else finest
    if first > last:
        return None
    levels = {_n_clusters(level_n) for hold_out in hold_outs for level_n in hold_out.levels}
    coarse = {k for k in levels if first <= k <= last} | set(coarse_numbers(first, last, N_COARSE))
    n_images_c = held_hc.sum(0) * np.bincount(class_n[class_n >= 0]).astype(np.float64)
    steps = Steps(task.progress, 2 * len(hold_outs))
    scores_h: list[dict[int, Score]] = [{} for _ in hold_outs]

    def score(numbers: Collection[int]) -> None:
        for hold_out, scores in zip(hold_outs, scores_h, strict=True):
            scores.update(_scores(hold_out, numbers, len(n_images_c)))
            steps.advance()

    score(coarse)
    k_j, score_sj = score_table(scores_h, n_images_c, np.ones((1, len(n_images_c))))
    score(numbers_around(best_number(dict(zip(k_j, score_sj[0].tolist(), strict=True))), k_j, N_AROUND))
    draw_sc = draws_of_classes(n_images_c > 0, numpy_generator(task.seed, "hold-out bootstrap"))
    k_j, score_sj = score_table(scores_h, n_images_c, draw_sc)
    return estimate_of_scores(replace(task, last=last), "hold-out", k_j, score_sj, int((n_images_c > 0).sum()))


def held_out_classes(n_old: int, rng: np.random.Generator) -> Flags:
    """Return as hc which classes each hold-out hides; one row per different hold-out, none for fewer than 2 classes."""
    if n_old < 2:
        return np.zeros((0, n_old), dtype=bool)
    n_held, order_c = max(1, round(n_old * (0.4 if n_old <= 5 else 0.2))), rng.permutation(n_old)
    is_held_hc = np.zeros((N_HOLD_OUTS, n_old), dtype=bool)
    for h in range(N_HOLD_OUTS):
        is_held_hc[h, order_c[(h * n_held + np.arange(n_held)) % n_old]] = True
    return np.unique(is_held_hc, axis=0)


def score_table(scores_h: list[dict[int, Score]], n_images_c: Floats, draw_sc: Floats) -> tuple[list[int], Floats]:
    """Return the K that every hold-out could make, ascending, and as sj their score in each bootstrap sample.

    Args:
        scores_h: what each hold-out found.
        n_images_c: held-out images of each class, all hold-outs together.
        draw_sc: how often each sample counts each class.
    """
    k_j = sorted(set.intersection(*(set(scores) for scores in scores_h)))
    silhouette_j = np.array([np.mean([scores[k].silhouette for scores in scores_h]) for k in k_j])
    right_jc = np.array([np.sum([scores[k].right_c for scores in scores_h], axis=0) for k in k_j])
    accuracy_sj = draw_sc @ right_jc.T / (draw_sc @ n_images_c)[:, None]
    return k_j, _from_0_to_1(silhouette_j[None]) * _from_0_to_1(accuracy_sj)


def partitions_of(hold_out: HoldOut, numbers: Collection[int]) -> Iterator[tuple[int, Ids]]:
    """Give SNC's partitions of some numbers of clusters: a level, or merged from the coarsest level that is finer.

    Numbers that there is no partition of are left out: more than the finest level has, and so few that labelled classes
    would have to be merged.
    """
    n_clusters_l = [_n_clusters(level_n) for level_n in hold_out.levels]
    for level_n, n_clusters, n_next in zip(hold_out.levels, n_clusters_l, [*n_clusters_l[1:], 0], strict=True):
        wanted = {k for k in numbers if n_next < k <= n_clusters}
        if not wanted:
            continue
        merged = merge_closest(hold_out.x_nd, hold_out.known_n, level_n)
        for cluster_n in islice(chain([level_n], merged), n_clusters - min(wanted) + 1):
            if _n_clusters(cluster_n) in wanted:
                yield _n_clusters(cluster_n), cluster_n


def _hold_out(task: Task, class_n: Ids, is_held_c: Flags) -> HoldOut:
    is_held_n = (class_n >= 0) & is_held_c[class_n]
    known_n = numbered(np.where(is_held_n, -1, class_n))
    x_nd = F.normalize(whitened_within_classes(task.features_nd, known_n))
    unlabelled = np.flatnonzero(task.class_n < 0)
    rows = unlabelled if len(unlabelled) > 2 else np.arange(len(class_n))
    rows = np.sort(numpy_generator(task.seed, "hold-out silhouette").permutation(rows)[:N_SILHOUETTE_ROWS])
    x_md = x_nd.numpy()[rows].astype(np.float64)
    distance_mm = np.clip(1 - x_md @ x_md.T, 0, 2)
    np.fill_diagonal(distance_mm, 0)
    held_n = np.where(is_held_n, class_n, -1)
    return HoldOut(x_nd, known_n, held_n, partitions(x_nd, known_n), rows, distance_mm)


def _scores(hold_out: HoldOut, numbers: Collection[int], n_old: int) -> dict[int, Score]:
    """Return the scores of the numbers of clusters that there is a partition of."""
    return {
        k: Score(
            float(silhouette_of_rows(hold_out.distance_mm, cluster_n[hold_out.rows]).mean()),
            right_by_class(cluster_n, hold_out.held_n, n_old),
        )
        for k, cluster_n in partitions_of(hold_out, numbers)
    }


def _from_0_to_1(score_sj: Floats) -> Floats:
    """Return each row from its least to its most as 0 to 1; a row without differences, which says nothing, as 1."""
    least_s1, most_s1 = score_sj.min(1, keepdims=True), score_sj.max(1, keepdims=True)
    width_s1 = np.where(most_s1 > least_s1, most_s1 - least_s1, 1)
    scaled_sj: Floats = np.where(most_s1 > least_s1, (score_sj - least_s1) / width_s1, 1.0)
    return scaled_sj


def _n_clusters(cluster_n: Ids) -> int:
    return int(cluster_n.max()) + 1
