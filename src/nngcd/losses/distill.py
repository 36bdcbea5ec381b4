"""Self-distillation: views learn from each other's predictions, while the batch stays spread over clusters."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nngcd.losses.pairs import check_views


def cross_view_distillation(
    student_logits_vbk: Tensor,
    teacher_logits_vbk: Tensor,
    *,
    student_temperature: float,
    teacher_temperature: float,
) -> Tensor:
    """Return the cross-entropy of each view with the sharpened prediction of every other view: NN-GCD, Eq. (25), left.

    The papers write it for two views; this is the mean over all ordered pairs of different views. No gradient flows
    into the teacher, so in SimGCD, which is its own teacher, both logits may be the same tensor.

    Args:
        student_logits_vbk: cosines to the prototypes, before the temperature; these learn.
        teacher_logits_vbk: the teacher's cosines for the same views.
        student_temperature: 0.1 in SimGCD.
        teacher_temperature: from 0.07 to 0.04 in SimGCD. NN-GCD prints 0.007, its code uses SimGCD's.
    """
    check_views(student_logits_vbk)
    if student_logits_vbk.shape != teacher_logits_vbk.shape:
        shapes = f"{tuple(student_logits_vbk.shape)} and {tuple(teacher_logits_vbk.shape)}"
        raise ValueError(f"student and teacher must predict the same views and clusters, got shapes {shapes}")
    target_vbk = (teacher_logits_vbk.detach() / teacher_temperature).softmax(-1)
    return cross_view_cross_entropy(student_logits_vbk, target_vbk, temperature=student_temperature)


def cross_view_cross_entropy(logits_vbk: Tensor, target_vbk: Tensor, *, temperature: float) -> Tensor:
    """Return the cross-entropy of each view with the target made from every other view, for given targets.

    Args:
        logits_vbk: cosines to the prototypes, before the temperature.
        target_vbk: the pseudo-label that each view gives to the others; each sums to 1.
        temperature: of the predictions.
    """
    check_views(logits_vbk)
    n_views, n_images, _ = logits_vbk.shape
    logp_wbk = (logits_vbk / temperature).log_softmax(-1)
    loss_vw = -torch.einsum("vbk,wbk->vw", target_vbk, logp_wbk) / max(n_images, 1)
    return (loss_vw.sum() - loss_vw.trace()) / (n_views * (n_views - 1))


def pseudo_label_cross_entropy(
    student_logits_bk: Tensor, teacher_logits_bk: Tensor, *, student_temperature: float, teacher_temperature: float
) -> Tensor:
    """Return the cross-entropy of the student's predictions with the teacher's sharpened ones, one pair per image.

    The one-way form of `cross_view_distillation`, for teachers that see another view of the image (muGCD).
    """
    target_bk = (teacher_logits_bk.detach() / teacher_temperature).softmax(-1)
    logp_bk = (student_logits_bk / student_temperature).log_softmax(-1)
    return -(target_bk * logp_bk).sum() / max(len(logp_bk), 1)


def mean_entropy_gap(logits_vbk: Tensor, *, temperature: float) -> Tensor:
    """Return log K minus the entropy of the batch's mean prediction: NN-GCD, Eq. (27), as used in Eq. (25).

    The papers subtract the entropy; their code adds log K, which makes it KL(mean prediction, uniform), 0 at best.

    Args:
        logits_vbk: cosines to the prototypes, before the temperature.
        temperature: of the prediction (tau_s); 0.1 in SimGCD.
    """
    n_views, n_images, n_clusters = logits_vbk.shape
    if not n_images:
        return logits_vbk.sum() * 0
    # In logarithms throughout: `p ** -p` and `torch.special.entr(p)` both give nan gradients once a p underflows to 0.
    logp_vbk = (logits_vbk / temperature).log_softmax(-1)
    log_mean_k = logp_vbk.logsumexp((0, 1)) - math.log(n_views * n_images)
    return math.log(n_clusters) + (log_mean_k.exp() * log_mean_k).sum()


def remembered_entropy_gap(
    logits_vbk: Tensor, remembered_k: Tensor, *, memory: float, temperature: float
) -> tuple[Tensor, Tensor]:
    """Return `mean_entropy_gap` of a mean prediction that reaches back over earlier batches, and that mean.

    The mean of one batch is a rough guess where there are more clusters than images in it: its entropy then pushes
    images into clusters that are missing by chance only. The gradient is that of the new batch in full strength, as if
    the whole mean were its own.

    Args:
        logits_vbk: cosines to the prototypes, before the temperature.
        remembered_k: the mean prediction so far; uniform at first.
        memory: its share in the new mean, in [0, 1); 0 gives `mean_entropy_gap`.
        temperature: of the prediction.
    """
    _, n_images, n_clusters = logits_vbk.shape
    if not n_images:
        return logits_vbk.sum() * 0, remembered_k
    batch_k = (logits_vbk / temperature).softmax(-1).mean((0, 1))
    mean_k = memory * remembered_k + (1 - memory) * batch_k
    gap = math.log(n_clusters) + (mean_k * mean_k.clamp(min=torch.finfo(mean_k.dtype).tiny).log()).sum()
    full = gap / (1 - memory)
    return gap.detach() + full - full.detach(), mean_k.detach()
