"""Whether the labelled images of known categories are a random share of them, as splits of known clusters assume."""

from __future__ import annotations

from typing import NamedTuple

import torch
from scipy.stats import binom
from torch import Tensor

from nngcd.clustering.hidden_parts import LEAST_LABELS

N_NEIGHBOURS = 5
N_PERMUTATIONS = 199
MOST_IMAGES = 1000
"""Of a larger cluster, as many are drawn: neighbours of all would take time in proportion to the square."""
OWN_LEVEL = 0.05
"""Level of the test of one category."""
LEAST_EXCESS = 0.25
"""By how much of what is possible the neighbours of labelled images are labelled more often than others: a swallowed
category alone has less of an effect, however many images make it certain."""
USUAL_SHARE = 0.1
"""Of the known categories, so many may be apart although labels are random: those that have swallowed a category."""
LEVEL = 0.01
"""Of the test of all categories together."""


class LabelCheck(NamedTuple):
    """The result of the check of the labels."""

    n_tested: int
    """Known categories with enough labelled and other images."""
    n_apart: int
    """Those of them whose labelled images differ from the others of their cluster."""

    @property
    def is_doubtful(self) -> bool:
        """Whether more categories are apart than chance and swallowed categories explain."""
        return bool(binom.sf(self.n_apart - 1, self.n_tested, USUAL_SHARE) < LEVEL)


def check_labels(
    plain_nd: Tensor, cluster_n: Tensor, labels_n: Tensor, *, n_old: int, generator: torch.Generator
) -> LabelCheck:
    """Count the known categories whose labelled images differ from the other images of their cluster.

    If labels are given at random, the neighbours of a labelled image are labelled as often as any image of the
    cluster: the nearest-neighbour test of two samples (Schilling 1986; Henze 1988), by permutation.

    Args:
        plain_nd: features that no label has touched.
        cluster_n: the cluster of each image; cluster k < n_old is old class k.
        labels_n: -1 for unlabelled images.
        n_old: how many clusters are known.
        generator: of permutations, and of the images drawn from large clusters; on the CPU.
    """
    cluster_n = torch.where(labels_n >= 0, labels_n, cluster_n)
    image_k = torch.split(cluster_n.argsort(stable=True), cluster_n.bincount(minlength=n_old).tolist())[:n_old]
    n_tested = n_apart = 0
    for image_m in image_k:
        drawn_m = torch.randperm(len(image_m), generator=generator)[:MOST_IMAGES].to(image_m.device)
        is_labelled_m = labels_n[image_m[drawn_m]] >= 0
        if min(is_labelled_m.sum(), (~is_labelled_m).sum()) < LEAST_LABELS:
            continue
        n_tested += 1
        n_apart += is_apart(plain_nd[image_m[drawn_m]], is_labelled_m, generator)
    return LabelCheck(n_tested, n_apart)


def is_apart(plain_md: Tensor, is_labelled_m: Tensor, generator: torch.Generator) -> bool:
    """Whether labelled images have labelled neighbours more often than chance explains, and much more often.

    Args:
        plain_md: features of a cluster's images that no label has touched.
        is_labelled_m: which of them are labelled.
        generator: of the permutations; on the CPU.
    """
    n = len(plain_md)
    apart_mm = torch.cdist(plain_md, plain_md).fill_diagonal_(torch.inf)
    neighbour_mj = apart_mm.topk(min(N_NEIGHBOURS, n - 1), largest=False).indices
    order_pm = torch.stack([torch.arange(n), *(torch.randperm(n, generator=generator) for _ in range(N_PERMUTATIONS))])
    is_labelled_pm = is_labelled_m[order_pm.to(is_labelled_m.device)].float()
    share_p = (is_labelled_pm * is_labelled_pm[:, neighbour_mj].mean(-1)).sum(-1) / is_labelled_m.sum()
    expected = (is_labelled_m.sum() - 1) / (n - 1)
    excess = (share_p[0] - expected) / (1 - expected)
    # A little less than its share also counts: sums of another order differ in the last digit.
    p_value = (share_p >= share_p[0] - 1e-6).float().mean()
    return bool(excess > LEAST_EXCESS and p_value <= OWN_LEVEL)
