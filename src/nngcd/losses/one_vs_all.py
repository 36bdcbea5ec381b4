"""One-vs-all detectors: for each known class a yes or no, so that an image may belong to none of them.

Open-set losses of OVANet and OpenMatch (Saito & Saenko 2021; Saito et al. 2021), which DebGCD uses. A detector has two
logits per class. Here it is given by their difference a, so that the probability of yes is sigmoid(a).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.losses.pairs import check_views


def detector_cross_entropy(yes_vbc: Tensor, labels_b: Tensor) -> Tensor:
    """Return how far detectors are from the labels: -log yes of the own class, and -log no of the nearest other one.

    Args:
        yes_vbc: logit of yes, over the temperature.
        labels_b: class of each image, -1 for unlabelled images, which are left out here.

    Returns:
        The loss; exactly 0, still part of the graph, when no image is labelled.
    """
    is_labelled = labels_b >= 0
    if not is_labelled.any():
        return yes_vbc.sum() * 0
    yes_vlc, own_lc = yes_vbc[:, is_labelled], F.one_hot(labels_b[is_labelled], yes_vbc.shape[-1]).bool()
    own_vl = yes_vlc[own_lc.expand_as(yes_vlc)]
    nearest_vl = yes_vlc.masked_fill(own_lc, -torch.inf).amax(-1)
    return F.softplus(-own_vl).mean() + F.softplus(nearest_vl).mean()


def detector_entropy(yes_vbc: Tensor) -> Tensor:
    """Return the mean entropy of the answers; 0 without images."""
    return (F.softplus(yes_vbc) - yes_vbc * yes_vbc.sigmoid()).sum() / max(yes_vbc.numel(), 1)


def detector_disagreement(yes_vbc: Tensor) -> Tensor:
    """Return the squared difference of the answers to two views of an image, summed over classes and yes and no.

    It is the mean over images and all pairs of different views; 0 without images.
    """
    check_views(yes_vbc)
    n_views, n_images, _ = yes_vbc.shape
    p_vbc = yes_vbc.sigmoid()
    # The sum over all pairs (v, w) of |p_v - p_w|^2 is 2V times the squared distances from the mean of the views.
    spread = (p_vbc - p_vbc.mean(0)).square().sum() * 2 * n_views
    return 2 * spread / max(n_views * (n_views - 1) * n_images, 1)


def certainty(yes_vbc: Tensor) -> Tensor:
    """Return certainty_vb, in [0, 1]: how clearly the likeliest class says yes or no; 1 without any class."""
    if not yes_vbc.shape[-1]:
        return yes_vbc.new_ones(yes_vbc.shape[:-1])
    return (yes_vbc.detach().amax(-1) / 2).tanh().abs()
