"""SupCon: labelled images of one class find each other among all labelled images."""

from __future__ import annotations

import torch
from torch import Tensor

from nngcd.losses.pairs import Similarity, cosines


def supcon(z_vbd: Tensor, labels_b: Tensor, *, temperature: float = 0.07, similarity: Similarity = cosines) -> Tensor:
    """Return the mean over anchors of the mean over positives of -log softmax: NN-GCD, Eq. (23).

    The print compares with the other view of every image; SimGCD's and NN-GCD's code, and we, with all views of all
    labelled images except the anchor itself. An anchor without a positive (one view, alone in its class) is left out.

    Args:
        z_vbd: projections of the whole batch, normalised by the cosine.
        labels_b: class of each image, -1 for unlabelled images, which are left out here.
        temperature: 0.07 in SimGCD, whose temperature / base temperature is 1.
        similarity: what is contrasted, of the labelled images only.

    Returns:
        The loss; exactly 0, still part of the graph, when no two labelled views can be compared.
    """
    is_labelled = labels_b >= 0
    labelled_vbd, labels_b = z_vbd[:, is_labelled], labels_b[is_labelled]
    n_views, n_images, _ = labelled_vbd.shape
    n_anchors = n_views * n_images
    if n_anchors < 2:
        return z_vbd.sum() * 0
    # Anchors and the views they meet play the same part whatever view they are, so here (v, b) is one axis.
    logit_aa = (similarity(labelled_vbd) / temperature).reshape(n_anchors, n_anchors)
    label_a = labels_b.repeat(n_views)
    is_self_aa = torch.eye(n_anchors, dtype=torch.bool, device=z_vbd.device)
    is_positive_aa = (label_a[:, None] == label_a) & ~is_self_aa
    log_sum_a1 = logit_aa.masked_fill(is_self_aa, -torch.inf).logsumexp(1, keepdim=True)
    n_positives_a = is_positive_aa.sum(1)
    loss_a = ((log_sum_a1 - logit_aa) * is_positive_aa).sum(1) / n_positives_a.clamp_min(1)
    return loss_a.sum() / (n_positives_a > 0).sum().clamp_min(1)
