"""ProtoGCD: a prototype per class, and pseudo-labels that harden in order of confidence (Ma et al., TPAMI 2025).

"ProtoGCD: Unified and Unbiased Prototype Learning for Generalized Category Discovery". SimGCD with three changes. The
most confident share of a batch gives hard pseudo-labels, the others soft ones, and that share grows to 1 (DAPL). The
temperature of pseudo-labels does not change. And prototypes push each other apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.core.ranges import NotNegative, Positive, Share, WholeNotNegative
from nngcd.losses.distill import cross_view_cross_entropy
from nngcd.methods import simgcd
from nngcd.methods.contract import Batch, Moment


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(simgcd.Config):
    """ProtoGCD's settings; defaults are those of its code."""

    entropy_weight: NotNegative = 2.0
    """Weight of the mean-entropy term; the authors use 2 on CUB and CIFAR-100."""
    teacher_temperature_start: Positive = 0.05
    """Temperature of the pseudo-labels in the first epoch."""
    teacher_temperature: Positive = 0.05
    """Temperature of the pseudo-labels after the warm-up; by default the same as in the first epoch."""
    teacher_warmup_epochs: WholeNotNegative = 0
    """Epochs over which the temperature changes."""
    hardening_share: Share = 0.5
    """Share of the epochs after which all pseudo-labels are hard; until then their share rises linearly from 0 (the
    authors: 100 of 200 epochs)."""
    separation_weight: NotNegative = 0.1
    """Weight of the separation of prototypes; the authors use 0.1 on CIFAR-100 and 0.05 on CUB."""


class Method(simgcd.Method):
    """ProtoGCD. Pseudo-labels harden in the order of their confidence, and prototypes repel each other."""

    config: Config

    def pseudo_label_terms(self, batch: Batch, logits_vbk: Tensor) -> dict[str, Tensor]:
        """Return the classifier's unsupervised terms: other view, mean entropy, prototypes and neighbours."""
        c, moment = self.config, batch.moment
        sharpness = simgcd.teacher_temperature(c, moment.epoch)
        share = hard_share(moment, c.hardening_share)
        target_vbk = partly_hard(self.judge(batch.features_vbd).detach() / sharpness, share)
        return {
            "pseudo_label": cross_view_cross_entropy(logits_vbk, target_vbk, temperature=c.student_temperature),
            "mean_entropy": c.entropy_weight * self.mean_entropy(logits_vbk),
            "separation": c.separation_weight * separation(self.prototypes.used_kd, temperature=c.student_temperature),
            **self.neighbour_terms(batch.image_b, logits_vbk, teacher_temperature=sharpness),
        }


def hard_share(moment: Moment, hardening_share: float) -> float:
    """Return the share of a batch's pseudo-labels that are hard in this epoch.

    It depends on the length of the run, so that short runs reach 1 as well; the authors count in epochs.
    """
    if not moment.epoch:
        return 0.0
    last = hardening_share * moment.n_epochs - 1
    return min(1.0, moment.epoch / last) if last > 0 else 1.0


def partly_hard(logits_vbk: Tensor, share: float) -> Tensor:
    """Return target_vbk: predictions, of which the most confident share of each view is hard.

    Confidence is the difference of the two largest logits. The authors take the ratio of the probabilities, p1 / (p2 +
    1e-6), which gives the same order, but ties where p2 vanishes.

    Args:
        logits_vbk: logits over the temperature.
        share: of the images of each view, rounded down; labelled ones count as well, as in the authors' code.
    """
    target_vbk = logits_vbk.softmax(-1)
    n_hard, n_clusters = int(target_vbk.shape[1] * share), target_vbk.shape[-1]
    if not n_hard or n_clusters < 2:
        return target_vbk
    first_vb, second_vb = logits_vbk.topk(2, -1).values.unbind(-1)
    is_hard_vb = torch.zeros_like(first_vb, dtype=torch.bool)
    is_hard_vb.scatter_(1, (first_vb - second_vb).topk(n_hard, 1).indices, value=True)
    hard_vbk = F.one_hot(logits_vbk.argmax(-1), n_clusters).to(target_vbk)
    return torch.where(is_hard_vb[..., None], hard_vbk, target_vbk)


def separation(prototypes_kd: Tensor, *, temperature: float) -> Tensor:
    """Return the mean over prototypes of the log of the mean of exp(cosine / temperature) with all others.

    It can be negative. One prototype alone gives 0, where the authors' code gives NaN.
    """
    n_clusters = len(prototypes_kd)
    if n_clusters < 2:
        return prototypes_kd.sum() * 0
    unit_kd = F.normalize(prototypes_kd, dim=-1)
    logit_kk = (unit_kd @ unit_kd.T / temperature).fill_diagonal_(-torch.inf)
    return (logit_kk.logsumexp(1) - math.log(n_clusters - 1)).mean()
