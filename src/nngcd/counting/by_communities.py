"""K from how many communities the images fall into: DCCL's estimate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from nngcd.clustering.communities import MIN_SIZE, link_communities, nearest_with_cosines, neighbour_links
from nngcd.clustering.points import Ids
from nngcd.core.run_schemas import Trust
from nngcd.core.seeds import derive
from nngcd.counting.scores import CountingTask, KEstimate, Steps

NEIGHBOURS = (10, 11, 13, 15, 17, 20, 22)
"""DCCL's 15, and from two thirds to one and a half times as many. An odd number of them, so that one is the median."""
N_LEFT_OUT = 1
"""Counts at either end that the interval leaves out: 5 of 7 are about as many as lie within one standard error."""


def by_communities(task: CountingTask) -> KEstimate | None:
    """Return the number of communities of at least 5 images; None where there is none.

    DCCL (Pu, Zhong and Sebe, CVPR 2023) trains, and takes the number that it finds with 15 neighbours. The features are
    those given here, which need not be trained (`nngcd estimate-k RUN` gives a run's). Departure: with more neighbours
    the communities are fewer and larger, so they are counted with seven numbers of neighbours around 15. K is the
    median, and the interval is what most of them say; it is about that choice, not about the data.
    """
    count_r = _counts(task)
    if not count_r.any():
        return None
    low, high = (int(count) for count in np.sort(count_r)[[N_LEFT_OUT, -1 - N_LEFT_OUT]])
    if not task.is_range_given:
        task = replace(task, last=max(task.last, min(2 * high, task.n_images)))
    possible_r = np.clip(count_r, task.first, task.last)
    k, confidence = int(np.median(possible_r)), _confidence(low, high, task)
    low, high = (int(np.clip(end, task.first, task.last)) for end in (low, high))
    curve = tuple((number, _depth(number, possible_r)) for number in range(possible_r.min(), possible_r.max() + 1))
    return KEstimate(k, low, high, curve, "communities", *confidence, task.is_at_edge(low, high))


def _counts(task: CountingTask) -> Ids:
    """Return how many communities there are with each number of neighbours."""
    nearest, labels_n = nearest_with_cosines(task.features_nd, max(NEIGHBOURS)), torch.from_numpy(task.class_n)
    steps, counts = Steps(task.progress, len(NEIGHBOURS)), []
    for n_neighbours in NEIGHBOURS:
        links = neighbour_links(nearest.first(n_neighbours), labels_n)
        seed = derive(task.seed, "communities", n_neighbours)
        counts.append(int(link_communities(links, len(labels_n), seed=seed).max()) + 1)
        steps.advance()
    return np.array(counts)


def _depth(number: int, count_r: Ids) -> float:
    """Return the smaller of the shares of the counts that are at most and at least a number: most for the median."""
    return float(min((count_r <= number).mean(), (count_r >= number).mean()))


def _confidence(low: int, high: int, task: CountingTask) -> tuple[Trust, str]:
    """Return `fair` where the counts hardly depend on the number of neighbours, with the words for it."""
    counted = f"{low if low == high else f'{low} to {high}'} communities of {MIN_SIZE} or more images"
    if high < task.first:
        return "low", f"there are {counted}, fewer than the smallest possible number, {task.first}"
    if low > task.last:
        return "low", f"there are {counted}, more than the range allows"
    linked = f"with {NEIGHBOURS[N_LEFT_OUT]} to {NEIGHBOURS[-1 - N_LEFT_OUT]} neighbours linked"
    if high - low <= 0.15 * (high + low):
        return "fair", f"{counted} {linked}, a narrow interval; but communities may not be classes"
    return "low", f"{counted} {linked}, a wide interval: the number depends on how many are linked"
