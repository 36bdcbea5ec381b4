"""NN-GCD: SimGCD with a non-negative projection, re-weighted negatives and sparse weights (Ji et al., `nn-gcd.tex`).

What it adds to SimGCD, each part with its own switch:

1. Non-negative activated neurons, Eqs. (18, 19): `activation` after the projection, and a teacher that averages the
   classifier. GELU is not non-negative (its minimum is -0.17); `rep_relu` and `relu` are. GELU is the paper's choice.
2. NMF NCE, Eqs. (28, 29), instead of InfoNCE, Eq. (22), as the unsupervised contrast (`contrast`). SupCon stays.
3. Hybrid sparse regularisation, Eq. (30), of the trained weights (`sparse_weight`).

With all of them off the loss is SimGCD's, to the bit (tested).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from nngcd.core.ranges import check_finite, check_not_negative, check_positive, check_share
from nngcd.core.schedules import teacher_momentum
from nngcd.heads import Prototypes, find_activation
from nngcd.losses.info_nce import info_nce
from nngcd.losses.nmf_nce import nmf_nce
from nngcd.losses.sparse import hybrid_sparse_norm
from nngcd.losses.weighting import weighted
from nngcd.methods import simgcd
from nngcd.methods.contract import Batch, Moment, Task


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(simgcd.Config):
    """NN-GCD's settings; defaults are the paper's (section VI), ambiguities resolved as docs/paper.md says."""

    contrastive_temperature: float = 0.5
    """Temperature of the unsupervised contrastive loss (tau); kept when NMF NCE is switched off for an ablation."""
    activation: str = "gelu"
    """Activation of the projection: gelu (paper), rep_relu, relu, silu, softplus, sigmoid, identity (off)."""
    contrast: Literal["nmf_nce", "info_nce"] = "nmf_nce"
    """Unsupervised contrastive loss: nmf_nce (paper) or info_nce (= component off)."""
    nce_form: Literal["official", "printed"] = "official"
    """NMF NCE as in the authors' code (positive in the denominator, negatives summed) or as printed in the paper."""
    nce_mean: float = 0.1
    """Similarity at which negatives weigh most (mu)."""
    nce_deviation: float = 1.0
    """Width of that weighting (sigma); large values give InfoNCE."""
    sparse_weight: float = 3e-5
    """Weight of the hybrid sparse regulariser (gamma); 0 switches it off."""
    sparse_on: tuple[Literal["tail", "gains", "projection", "prototypes"], ...] = ("tail", "projection", "prototypes")
    """What the regulariser touches (W, which the paper leaves undefined): the matrices of these parts, and the gains of
    the tail's norm layers (authors' code)."""
    sparse_l1_share: float = 0.6
    """Share of the L1 norm in the regulariser (beta), in [0, 1]."""
    sparse_frobenius: Literal["squared", "norm"] = "squared"
    """Frobenius part as printed (squared: unbounded below without enough weight decay) or bounded (norm)."""
    teacher: Literal["average", "student"] = "average"
    """Who writes pseudo-labels and result: a moving average of the classifier, or the classifier itself (off)."""
    teacher_scope: Literal["head", "all"] = "head"
    """What is averaged: the classifier alone, which shares the student's features (authors' code), or also the trained
    tail (Theta_t in the paper), which is then the result."""
    teacher_momentum_start: float = 0.7
    """Momentum of the moving average at the first step (omega_min)."""
    teacher_momentum_end: float = 0.99
    """Momentum of the moving average at the last step (omega_max); the authors' code uses 0.999."""
    teacher_momentum_form: Literal["exact", "mugcd"] = "exact"
    """Cosine from start to end exactly, or muGCD's formula as in the authors' code (starts 0.001 lower)."""
    teacher_start: Literal["copy", "random"] = "copy"
    """The teacher begins as a copy of the classifier, or as independent random prototypes (authors' code); where
    prototypes are placed (`prototype_start: matched`), always as a copy."""

    def __post_init__(self) -> None:
        simgcd.Config.__post_init__(self)
        find_activation(self.activation)
        check_not_negative(self, "sparse_weight")
        check_share(self, "sparse_l1_share", "teacher_momentum_start", "teacher_momentum_end")
        check_positive(self, "nce_deviation")
        check_finite(self, "nce_mean")


class Method(simgcd.Method):
    """NN-GCD: L = (1 - lambda) L_SSL + lambda L_SL + L_HSR, with a teacher that shares the student's frozen trunk."""

    config: Config
    teacher: Prototypes

    def __init__(self, config: Config, task: Task) -> None:
        super().__init__(config, task, activation=config.activation)
        # Only the averaged classifier is ever read, so the teacher has no projection head; the authors' code averages
        # one and never uses it. With its tail shared, too, one pass serves student and teacher (equality is tested).
        self.averages_tail = config.teacher == "average" and config.teacher_scope == "all"
        self.teacher = self.new_prototypes().requires_grad_(False)
        if config.teacher_start == "copy":
            self.teacher.load_state_dict(self.prototypes.state_dict())

    def judge(self, features_vbd: Tensor) -> Tensor:
        """Return the logits that pseudo-labels are made of: the teacher's."""
        logits_vbk: Tensor = (self.teacher if self.config.teacher == "average" else self.prototypes)(features_vbd)
        return logits_vbk

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the terms of Eq. (31): (1 - lambda) [Eqs. (25) and (29)] + lambda [Eqs. (23) and (26)] + Eq. (30)."""
        c = self.config
        projection_vbd = self.projection(batch.features_vbd)
        logits_vbk = self.prototypes(batch.features_vbd)
        unsupervised = {**self.pseudo_label_terms(batch, logits_vbk), "contrast": self._contrast(projection_vbd)}
        terms = weighted(unsupervised, self.label_terms(batch, projection_vbd, logits_vbk), c.supervised_weight)
        if c.sparse_weight > 0:
            terms["sparse"] = c.sparse_weight * hybrid_sparse_norm(
                self._sparse_weights(), l1_share=c.sparse_l1_share, frobenius=c.sparse_frobenius
            )
        return terms

    @torch.no_grad()
    def after_step(self, moment: Moment) -> None:
        """Move the teacher a little towards the classifier."""
        super().after_step(moment)
        self.teacher.weight.lerp_(self.prototypes.weight, 1 - self.teacher_momentum(moment))

    def teacher_momentum(self, moment: Moment) -> float:
        """Return the share of itself that the teacher keeps in a step: omega(t)."""
        c = self.config
        ends = c.teacher_momentum_start, c.teacher_momentum_end
        return teacher_momentum(moment.step, moment.n_steps, *ends, form=c.teacher_momentum_form)

    def assign(self, features_nd: Tensor) -> Tensor:
        """Return the teacher's logits over the student temperature (the authors evaluate the teacher, too)."""
        return self.judge(features_nd) / self.config.student_temperature

    def _contrast(self, projection_vbd: Tensor) -> Tensor:
        c = self.config
        if c.contrast == "info_nce":
            return info_nce(projection_vbd, temperature=c.contrastive_temperature)
        return nmf_nce(
            projection_vbd, temperature=c.contrastive_temperature, mean=c.nce_mean, deviation=c.nce_deviation,
            include_positive=c.nce_form == "official", mean_negatives=c.nce_form == "printed",
        )  # fmt: skip

    def _sparse_weights(self) -> list[Tensor]:
        tail, projection = self.task.sparse_weights, self.projection.parameters()
        weights: dict[str, list[Tensor]] = {
            "tail": [p for p in tail if p.ndim >= 2], "gains": [p for p in tail if p.ndim == 1],
            "projection": [p for p in projection if p.ndim >= 2], "prototypes": [self.prototypes.used_kd],
        }  # fmt: skip
        return [p for part in weights if part in self.config.sparse_on for p in weights[part]]
