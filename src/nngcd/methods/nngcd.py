"""NN-GCD: SimGCD with a non-negative projection, re-weighted negatives and sparse weights (Ji et al., `nn-gcd.tex`).

Its additions to SimGCD, each with its own switch:

1. Non-negative activated neurons, Eqs. (18, 19): `activation` after the projection, and a teacher that averages the
   classifier. GELU is not non-negative (its minimum is -0.17); `rep_relu` and `relu` are. GELU is the paper's choice.
2. NMF NCE, Eqs. (28, 29), instead of InfoNCE, Eq. (22), as the unsupervised contrast (`contrast`). SupCon stays.
3. Hybrid sparse regularisation, Eq. (30), of the trained weights (`sparse_weight`).

With all of them off the loss is SimGCD's, to the bit (tested).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from nngcd.core.ranges import Finite, NotNegative, Positive, Share
from nngcd.core.schedules import teacher_momentum
from nngcd.losses.info_nce import info_nce
from nngcd.losses.nmf_nce import nmf_nce
from nngcd.losses.sparse import hybrid_sparse_norm
from nngcd.losses.weighting import weighted
from nngcd.methods import simgcd
from nngcd.methods.contract import Batch, Moment, Task
from nngcd.methods.heads import Prototypes, find_activation


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(simgcd.Config):
    """NN-GCD's settings; defaults are the paper's (section VI), with ambiguities resolved as in docs/paper/index.md."""

    contrastive_temperature: Positive = 0.5
    """Temperature of the unsupervised contrastive loss (tau); also used when an ablation switches NMF NCE off."""
    activation: str = "gelu"
    """Activation of the projection: gelu (paper), rep_relu, relu, silu, softplus, sigmoid, identity (off)."""
    contrast: Literal["nmf_nce", "info_nce"] = "nmf_nce"
    """Unsupervised contrastive loss: nmf_nce (paper), or info_nce, which switches this component off."""
    nce_form: Literal["official", "printed"] = "official"
    """NMF NCE as in the authors' code (positive in the denominator, negatives summed) or as printed in the paper."""
    nce_mean: Finite = 0.1
    """Similarity at which negatives weigh most (mu)."""
    nce_deviation: Positive = 1.0
    """Width of the weighting of negatives (sigma); large values give InfoNCE."""
    sparse_weight: NotNegative = 3e-5
    """Weight of the hybrid sparse regulariser (gamma); 0 switches it off."""
    sparse_on: tuple[Literal["tail", "gains", "projection", "prototypes"], ...] = ("tail", "projection", "prototypes")
    """Weights that the regulariser applies to (W, which the paper leaves undefined): the matrices of these parts, and
    the gains of the tail's norm layers (authors' code)."""
    sparse_l1_share: Share = 0.6
    """Share of the L1 norm in the regulariser (beta), in [0, 1]."""
    sparse_frobenius: Literal["squared", "norm"] = "squared"
    """Frobenius part as printed (squared: unbounded below without enough weight decay) or bounded (norm)."""
    teacher: Literal["average", "student"] = "average"
    """The source of pseudo-labels and result: a moving average of the classifier, or the classifier itself (off)."""
    teacher_scope: Literal["head", "all"] = "head"
    """Part that the teacher averages: the classifier alone, on the student's features (authors' code), or also the
    trained tail (Theta_t in the paper), which is then the result."""
    teacher_momentum_start: Share = 0.7
    """Momentum of the moving average at the first step (omega_min)."""
    teacher_momentum_end: Share = 0.99
    """Momentum of the moving average at the last step (omega_max); the authors' code uses 0.999."""
    teacher_momentum_form: Literal["exact", "mugcd"] = "exact"
    """Cosine from start to end exactly, or muGCD's formula as in the authors' code (starts 0.001 lower)."""
    teacher_start: Literal["copy", "random"] = "copy"
    """Whether the teacher starts as a copy of the classifier or from independent random prototypes (authors' code).
    Always a copy if prototypes are placed (`prototype_start: matched`)."""

    def __post_init__(self) -> None:
        simgcd.Config.__post_init__(self)
        find_activation(self.activation)


class Method(simgcd.Method):
    """NN-GCD: L = (1 - lambda) L_SSL + lambda L_SL + L_HSR, with a teacher that shares the student's frozen trunk."""

    config: Config
    teacher: Prototypes

    def __init__(self, config: Config, task: Task) -> None:
        super().__init__(config, task, activation=config.activation)
        # Only the averaged classifier is ever read, so the teacher has no projection head; the authors' code averages
        # one and never uses it. If the tail is shared as well, one pass serves student and teacher (tested).
        self.averages_tail = config.teacher == "average" and config.teacher_scope == "all"
        self.teacher = self.new_prototypes().requires_grad_(False)
        if config.teacher_start == "copy":
            self.teacher.load_state_dict(self.prototypes.state_dict())

    def judge(self, features_vbd: Tensor) -> Tensor:
        """Return the logits for pseudo-labels: the teacher's."""
        logits_vbk: Tensor = (self.teacher if self.config.teacher == "average" else self.prototypes)(features_vbd)
        return logits_vbk

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the terms of Eq. (31): (1 - lambda) [Eqs. (25) and (29)] + lambda [Eqs. (23) and (26)] + Eq. (30)."""
        c = self.config
        projection_vbd = self.projection(batch.features_vbd)
        logits_vbk = self.prototypes(batch.features_vbd)
        unsupervised = {
            **self.pseudo_label_terms(batch, logits_vbk),
            "contrast": self._contrast(projection_vbd, batch.moment),
        }
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
        self.teacher.follow(self.prototypes, 1 - self.teacher_momentum(moment))

    def teacher_momentum(self, moment: Moment) -> float:
        """Return the share of itself that the teacher keeps in a step: omega(t)."""
        c = self.config
        ends = c.teacher_momentum_start, c.teacher_momentum_end
        return teacher_momentum(moment.step, moment.n_steps, *ends, form=c.teacher_momentum_form)

    def assign(self, features_nd: Tensor) -> Tensor:
        """Return the teacher's logits over the student temperature (the authors also evaluate the teacher)."""
        return self.judge(features_nd) / self.config.student_temperature

    def _contrast(self, projection_vbd: Tensor, moment: Moment) -> Tensor:
        c = self.config
        form = info_nce if c.contrast == "info_nce" else partial(
            nmf_nce, mean=c.nce_mean, deviation=c.nce_deviation,
            include_positive=c.nce_form == "official", mean_negatives=c.nce_form == "printed",
        )  # fmt: skip
        return self.geometry.at(moment)(partial(form, projection_vbd), c.contrastive_temperature)

    def _sparse_weights(self) -> list[Tensor]:
        tail, projection = self.task.sparse_weights, self.projection.parameters()
        weights: dict[str, list[Tensor]] = {
            "tail": [p for p in tail if p.ndim >= 2], "gains": [p for p in tail if p.ndim == 1],
            "projection": [p for p in projection if p.ndim >= 2], "prototypes": [self.prototypes.used_kd],
        }  # fmt: skip
        return [p for part in weights if part in self.config.sparse_on for p in weights[part]]
