"""Contrastive affinity learning: contrast with related images in a memory."""

from __future__ import annotations

import torch
from torch import Tensor

from nngcd.losses.pairs import unit


def affinity_contrast(
    z_bd: Tensor,
    own_bd: Tensor,
    memory_md: Tensor,
    *,
    is_positive_bm: Tensor,
    is_negative_bm: Tensor,
    temperature: float = 0.07,
) -> Tensor:
    """Return how far the softmax is from even over an image's positives, as a mean over images: PromptCAL's CAL loss.

    Zhang et al., CVPR 2023, as in the authors' code: the softmax runs over the image's own other view, which is always
    a positive, and over the positives and negatives in the memory; what is neither is left out. Theirs is the mean over
    positives of -log softmax, which is log P for P positives at best; that is subtracted here, so that 0 is best.

    Args:
        z_bd: queries, which learn; normalised here, like all others.
        own_bd: the teacher's feature of another view of each image.
        memory_md: the teacher's features of earlier images.
        is_positive_bm: who belongs with whom in the memory.
        is_negative_bm: who certainly does not; never both.
        temperature: 0.07 in the paper.
    """
    if not len(z_bd):
        return z_bd.sum() * 0
    query_bd = unit(z_bd)
    own_b1 = (query_bd * unit(own_bd.detach())).sum(-1, keepdim=True)
    logit_bm = torch.cat([own_b1, query_bd @ unit(memory_md.detach()).T], dim=1) / temperature
    always_b1 = torch.ones_like(own_b1, dtype=torch.bool)
    is_positive_bm = torch.cat([always_b1, is_positive_bm], dim=1)
    is_compared_bm = is_positive_bm | torch.cat([always_b1, is_negative_bm], dim=1)
    log_sum_b1 = logit_bm.masked_fill(~is_compared_bm, -torch.inf).logsumexp(1, keepdim=True)
    n_positives_b = is_positive_bm.sum(1, dtype=logit_bm.dtype)
    loss_b = ((log_sum_b1 - logit_bm) * is_positive_bm).sum(1) / n_positives_b - n_positives_b.log()
    return loss_b.mean()
