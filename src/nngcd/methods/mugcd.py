"""muGCD: a mean teacher labels weak views, a student learns them from strong ones (Vaze et al., NeurIPS 2023).

Two stages: first GCD's contrastive training, then a cosine classifier taught by a teacher that is a whole network, the
moving average of the student's. There is no public code; this follows the paper's description (docs/paper/methods.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from nngcd.core.ranges import NotNegative, Positive, Share, ShareBelowOne, WholeNotNegative
from nngcd.core.schedules import teacher_momentum, two_stages
from nngcd.losses.cross_entropy import labelled_cross_entropy
from nngcd.losses.distill import mean_entropy_gap, pseudo_label_cross_entropy
from nngcd.losses.weighting import weighted
from nngcd.methods.centres import place_prototypes
from nngcd.methods.contract import Batch, Moment, Overview, Task
from nngcd.methods.gcd import ContrastConfig, ContrastHead, contrast_terms
from nngcd.methods.geometry import Geometry, GeometryConfig
from nngcd.methods.heads import Prototypes
from nngcd.methods.splitting import SplittingMethod


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(ContrastConfig, GeometryConfig):
    """muGCD's settings."""

    contrastive_share: ShareBelowOne = 2 / 3
    """Share of the epochs in the first, contrastive stage (the paper: 200 epochs, then 100), in [0, 1)."""
    entropy_weight: NotNegative = 1.0
    """Weight of the mean-entropy term."""
    student_temperature: Positive = 0.1
    """Temperature of the student's predictions and of the reported probabilities."""
    teacher_temperature: Positive = 0.05
    """Temperature of the teacher's pseudo-labels."""
    teacher_momentum_start: Share = 0.7
    """Momentum of the moving average at the first step of the second stage."""
    teacher_momentum_end: Share = 0.999
    """Momentum of the moving average at the last step."""
    prototype_start: Literal["random", "matched"] = "random"
    """Where prototypes start: at random (paper), or at the centres of semi-supervised k-means after the first stage."""
    split_epochs: WholeNotNegative = 0
    """Epochs of the second stage between two searches of known clusters for hidden new categories; 0 is never
    (paper)."""
    split_level: Share = 0.2
    """False discovery rate of the test of all known clusters: the expected share of wrong splits."""


class Method(SplittingMethod):
    """muGCD. The second view is the teacher's (weak), the first the student's (strong): `views.recipe`."""

    config: Config
    teacher: Prototypes
    averages_tail = True

    def __init__(self, config: Config, task: Task) -> None:
        super().__init__(config, task)
        self.head, self.geometry = ContrastHead(config, task), Geometry(config)
        self.prototypes = self.new_prototypes()
        self.teacher = self.new_prototypes().requires_grad_(False)
        self.teacher.load_state_dict(self.prototypes.state_dict())
        self.remember_moves()
        self._first_taught = 0

    def stage(self, epoch: int, n_epochs: int) -> range:
        """Return the contrastive epochs, or those with a teacher: without one of these nothing is classified."""
        return two_stages(epoch, n_epochs, self.config.contrastive_share)

    def looks_before(self, epoch: int, n_epochs: int) -> bool:
        """Whether to place prototypes (after the contrastive stage) or search clusters before this epoch."""
        c, self._first_taught = self.config, self.stage(n_epochs - 1, n_epochs).start
        if epoch == self._first_taught:
            return c.prototype_start == "matched"
        return epoch > self._first_taught and c.split_epochs > 0 and (epoch - self._first_taught) % c.split_epochs == 0

    def look(self, overview: Overview) -> None:
        """Place the prototypes, including the teacher's, or split off categories hidden in known clusters."""
        if overview.epoch > self._first_taught:
            self.split_and_merge(overview)
        else:
            place_prototypes(self.prototypes, overview)
            self.teacher.load_state_dict(self.prototypes.state_dict())

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the contrastive terms in the first stage; later what labels and teacher say of the strong view."""
        if not self._is_taught(batch.moment):
            z_vbd, contrast = self.head(batch.features_vbd), self.geometry.at(batch.moment)
            return contrast_terms(z_vbd, batch.labels_b, self.config, contrast)
        c = self.config
        assert batch.teacher_features_vbd is not None
        strong_vbk = self.prototypes(batch.features_vbd[:1])
        pseudo_label = pseudo_label_cross_entropy(
            strong_vbk[0],
            self.teacher(batch.teacher_features_vbd[1]),
            student_temperature=c.student_temperature,
            teacher_temperature=c.teacher_temperature,
        )
        unsupervised = {
            "pseudo_label": pseudo_label,
            "mean_entropy": c.entropy_weight * mean_entropy_gap(strong_vbk, temperature=c.student_temperature),
        }
        classify = labelled_cross_entropy(strong_vbk, batch.labels_b, temperature=c.student_temperature)
        return weighted(unsupervised, {"classify": classify}, c.supervised_weight)

    @torch.no_grad()
    def after_step(self, moment: Moment) -> None:
        """Move the teacher's prototypes as its tail is moved."""
        self.teacher.follow(self.prototypes, 1 - self.teacher_momentum(moment))

    def teacher_momentum(self, moment: Moment) -> float:
        """Return 0 in the first stage, which has no teacher; then the cosine from start to end."""
        if not self._is_taught(moment):
            return 0.0
        steps_per_epoch = moment.n_steps // moment.n_epochs
        first = self.stage(moment.epoch, moment.n_epochs).start * steps_per_epoch
        ends = self.config.teacher_momentum_start, self.config.teacher_momentum_end
        return teacher_momentum(moment.step - first, moment.n_steps - first, *ends)

    def assign(self, features_nd: Tensor) -> Tensor:
        """Return the teacher's logits over the student temperature; the tail is the teacher's by then."""
        logits_nk: Tensor = self.teacher(features_nd)
        return logits_nk / self.config.student_temperature

    def _is_taught(self, moment: Moment) -> bool:
        return self.stage(moment.epoch, moment.n_epochs).stop == moment.n_epochs
