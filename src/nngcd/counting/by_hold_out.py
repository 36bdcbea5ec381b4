"""K from how well neighbour clustering finds labelled classes whose labels were hidden from it: CiPR's estimate."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import chain, takewhile
from typing import NamedTuple

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from nngcd.clustering.points import Ids
from nngcd.clustering.snc import merge_closest, partitions
from nngcd.clustering.whitening import whitened_within_classes
from nngcd.core.seeds import numpy_generator
from nngcd.counting.scores import (
    CountingTask,
    Flags,
    Floats,
    KEstimate,
    Steps,
    best_number,
    bootstrap_draws,
    coarse_numbers,
    estimate_of_scores,
    numbered,
    numbers_around,
    only_pairs,
    right_by_class,
    silhouette_of_rows,
)

N_HOLD_OUTS = 5
N_COARSE = 40
N_AROUND = 24
N_SILHOUETTE_ROWS = 2048


@dataclass(frozen=True, slots=True)
class HoldOut:
    """The task with the labels of some classes hidden."""

    x_nd: Tensor
    """Unit features, whitened without the hidden labels."""
    known_n: Ids
    """Labels that the clustering may use."""
    held_n: Ids
    """Labels that are hidden, -1 for all other images."""
    levels: list[Ids]
    """SNC's hierarchy, finest level first."""
    rows: Ids
    """Images whose silhouette is computed, none of them labelled for the clustering."""
    distance_mm: Floats
    """Their cosine distances."""


class Score(NamedTuple):
    """Quality of one partition."""

    silhouette: float
    accuracy: float
    """Share of the held-out images that are right."""


def by_hold_out(task: CountingTask) -> KEstimate | None:
    """Return the K with the best product of silhouette and accuracy on held-out classes; None if labels are too few.

    CiPR (Hao, Han & Wong, TMLR 2024): the labels of a fifth of the labelled classes (two fifths of 5 or fewer) are
    hidden from SNC; each level is scored, each score brought to [0, 1], and around the level of the best product, the
    two closest clusters are merged one pair at a time, from the next finer level to the next coarser one. Departures:

    - Five hold-outs, which together hold out nearly every class, with the mean of their scores; the authors hold out
      the last classes, once. On digits, single ones say 7 to 12. The standard error is from a bootstrap of hold-outs.
    - Of the numbers between two levels, at most 40 are scored first, then those around the best.
    - Levels coarser than the range, for example with fewer clusters than labelled classes, are not chosen.
    - Features are whitened within the classes that are not held out.

    It wants features trained for the data: on CUB with those of a backbone as it came, it says half of the classes.
    """
    class_n = only_pairs(task.class_n)
    held_hc = held_out_classes(int(class_n.max()) + 1, numpy_generator(task.seed, "hold-out"))
    hold_outs = [_hold_out(task, class_n, is_held_c) for is_held_c in held_hc]
    finest = min((_n_clusters(hold_out.levels[0]) for hold_out in hold_outs), default=0)
    first, last = max(task.first, 2), min(finest, task.last) if task.is_range_given else finest
    if first > last:
        return None
    start, low, high = _around_best_level(hold_outs, first, last)
    steps = Steps(task.progress, 2 * len(hold_outs))
    scores_h: list[dict[int, Score]] = [{} for _ in hold_outs]

    def score(numbers: Collection[int]) -> None:
        for hold_out, scores in zip(hold_outs, scores_h, strict=True):
            scores.update(_scores_of_merges(hold_out, start, numbers))
            steps.advance()

    score(coarse_numbers(low, high, N_COARSE))
    k_j, score_sj = score_table(scores_h, np.ones((1, len(hold_outs))))
    score(numbers_around(best_number(dict(zip(k_j, score_sj[0].tolist(), strict=True))), k_j, N_AROUND))
    draw_sh = bootstrap_draws(len(hold_outs), numpy_generator(task.seed, "hold-out bootstrap"))
    k_j, score_sj = score_table(scores_h, draw_sh)
    return estimate_of_scores(replace(task, last=last), "hold-out", k_j, score_sj, len(hold_outs))


def held_out_classes(n_old: int, rng: np.random.Generator) -> Flags:
    """Return as hc which classes each hold-out hides; one row per different hold-out, none for fewer than 2 classes."""
    if n_old < 2:
        return np.zeros((0, max(n_old, 0)), dtype=bool)
    n_held, order_c = max(1, round(n_old * (0.4 if n_old <= 5 else 0.2))), rng.permutation(n_old)
    is_held_hc = np.zeros((N_HOLD_OUTS, n_old), dtype=bool)
    for h in range(N_HOLD_OUTS):
        is_held_hc[h, order_c[(h * n_held + np.arange(n_held)) % n_old]] = True
    return np.unique(is_held_hc, axis=0)


def score_table(scores_h: list[dict[int, Score]], draw_sh: Floats) -> tuple[list[int], Floats]:
    """Return the numbers of clusters that all hold-outs have, ascending, and as sj their score.

    A hold-out counts as often as it is drawn. Of equal images, one can begin with fewer clusters than another.
    """
    k_j = sorted(set.intersection(*(set(scores) for scores in scores_h)))
    score_hjm = np.array([[scores[k] for k in k_j] for scores in scores_h])
    mean_sjm = np.einsum("sh,hjm->sjm", draw_sh, score_hjm) / draw_sh.sum(1)[:, None, None]
    return k_j, _product(mean_sjm)


def _hold_out(task: CountingTask, class_n: Ids, is_held_c: Flags) -> HoldOut:
    is_held_n = (class_n >= 0) & is_held_c[class_n]
    known_n = numbered(np.where(is_held_n, -1, class_n))
    x_nd = F.normalize(whitened_within_classes(task.features_nd, known_n))
    rng = numpy_generator(task.seed, "hold-out silhouette")
    rows = np.sort(rng.permutation(np.flatnonzero(known_n < 0))[:N_SILHOUETTE_ROWS])
    x_md = x_nd.numpy()[rows].astype(np.float64)
    distance_mm = np.clip(1 - x_md @ x_md.T, 0, 2)
    np.fill_diagonal(distance_mm, 0)
    held_n = np.where(is_held_n, class_n, -1)
    return HoldOut(x_nd, known_n, held_n, partitions(x_nd, known_n), rows, distance_mm)


def _around_best_level(hold_outs: list[HoldOut], first: int, last: int) -> tuple[int, int, int]:
    """Return the level to merge from, and the fewest and most clusters to look at; it is the same level for all.

    Levels of one rank have about as many clusters in every hold-out; the fewest of them is what all can be merged to.
    """
    n_levels = min(len(hold_out.levels) for hold_out in hold_outs)
    number_l = [min(_n_clusters(hold_out.levels[level]) for hold_out in hold_outs) for level in range(n_levels)]
    coarser_l = [*number_l[1:], 1]
    able = [level for level in range(n_levels) if number_l[level] >= first and coarser_l[level] <= last]
    score_hlm = np.array([[_score(hold_out, hold_out.levels[level]) for level in able] for hold_out in hold_outs])
    best = able[int(_product(score_hlm.mean(0)[None])[0].argmax())]
    start = max(best - 1, 0)
    return start, max(first, coarser_l[best]), min(last, number_l[start])


def _scores_of_merges(hold_out: HoldOut, start: int, numbers: Collection[int]) -> dict[int, Score]:
    """Return the scores of some numbers of clusters, merged one pair at a time from a level of the hierarchy."""
    start_n, least = hold_out.levels[start], min(numbers, default=_n_clusters(hold_out.levels[start]) + 1)
    merged = chain([start_n], merge_closest(hold_out.x_nd, hold_out.known_n, start_n))
    wanted = takewhile(lambda cluster_n: _n_clusters(cluster_n) >= least, merged)
    return {_n_clusters(found_n): _score(hold_out, found_n) for found_n in wanted if _n_clusters(found_n) in numbers}


def _score(hold_out: HoldOut, cluster_n: Ids) -> Score:
    silhouette = silhouette_of_rows(hold_out.distance_mm, cluster_n[hold_out.rows]).mean()
    n_right, n_held = right_by_class(cluster_n, hold_out.held_n).sum(), (hold_out.held_n >= 0).sum()
    return Score(float(silhouette), float(n_right / n_held))


def _product(score_sjm: Floats) -> Floats:
    """Return the product of the measures, each brought to [0, 1] over the K of a row; one that is flat counts as 1."""
    least_s1m, most_s1m = score_sjm.min(1, keepdims=True), score_sjm.max(1, keepdims=True)
    width_s1m = most_s1m - least_s1m
    is_flat_s1m = width_s1m < 1e-12
    scaled_sjm = np.where(is_flat_s1m, 1, (score_sjm - least_s1m) / np.where(is_flat_s1m, 1, width_s1m))
    product_sj: Floats = scaled_sjm.prod(-1)
    return product_sj


def _n_clusters(cluster_n: Ids) -> int:
    return int(cluster_n.max()) + 1
