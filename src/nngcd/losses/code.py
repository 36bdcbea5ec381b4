"""InfoSieve's code losses: decided and balanced digits, short codes, and codes that predict the known classes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def code_condition(raw_vbl: Tensor) -> Tensor:
    """Return how far digits are from -1 and 1, and their means over all views from 0: InfoSieve's condition on codes.

    It is 0 for digits that are all -1 or 1, each as often as the other: one bit of information per digit.
    """
    undecided = (1 - raw_vbl.square()).mean()
    return undecided + raw_vbl.mean((0, 1)).square().mean()


def mask_condition(mask_vbl: Tensor) -> Tensor:
    """Return how far masks are from 0 and 1, at most 1/16: InfoSieve's condition on masks."""
    return (mask_vbl * (1 - mask_vbl)).square().mean()


def code_length(mask_vbl: Tensor) -> Tensor:
    """Return the mean weight of the digits that masks leave, in [0, 1]; digit k (from 0) weighs 2^k, so late ones go.

    InfoSieve's code keeps base 2 for this weight, whatever its codes have by then, and so do we. It adds up the views
    of a batch, where this is their mean: its weight 0.1 with 2 x 128 views is a weight of 25.6 here.
    """
    # As shares of the last digit's weight, since 2^k of a long code is too large for float32.
    weight_l = 0.5 ** torch.arange(mask_vbl.shape[-1], dtype=mask_vbl.dtype, device=mask_vbl.device).flip(0)
    return (mask_vbl @ (weight_l / weight_l.sum())).mean()


def category_cross_entropy(category_vbk: Tensor, labels_b: Tensor) -> Tensor:
    """Return the mean binary cross-entropy of labelled images' logits, each known class on its own: InfoSieve.

    Exactly 0, still part of the graph, when no image is labelled.
    """
    is_labelled_b = labels_b >= 0
    if not is_labelled_b.any():
        return category_vbk.sum() * 0
    known_vbk = category_vbk[:, is_labelled_b]
    is_class_bk = F.one_hot(labels_b[is_labelled_b], known_vbk.shape[-1]).to(known_vbk)
    return F.binary_cross_entropy_with_logits(known_vbk, is_class_bk.expand_as(known_vbk))
