"""Cross-entropy of the labelled images."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def labelled_cross_entropy(logits_vbk: Tensor, labels_b: Tensor, *, temperature: float = 0.1) -> Tensor:
    """Return the mean cross-entropy of all views of the labelled images: NN-GCD, Eq. (26).

    Args:
        logits_vbk: cosines to the prototypes, before the temperature.
        labels_b: class of each image, -1 for unlabelled images, which are left out here.
        temperature: of the prediction (tau_s); 0.1 in SimGCD.

    Returns:
        The loss; exactly 0, still part of the graph, when no image is labelled.
    """
    is_labelled = labels_b >= 0
    logits_ak = logits_vbk[:, is_labelled].flatten(0, 1) / temperature
    if not len(logits_ak):
        return logits_vbk.sum() * 0
    return F.cross_entropy(logits_ak, labels_b[is_labelled].repeat(len(logits_vbk)))
