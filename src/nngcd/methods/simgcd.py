"""SimGCD: a parametric classifier that learns from its own sharpened predictions (Wen et al., ICCV 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from torch import Tensor

from nngcd.core.ranges import AtLeastOne, NotNegative, Positive, Share, WholeNotNegative
from nngcd.core.schedules import linear_warmup
from nngcd.losses.cross_entropy import labelled_cross_entropy
from nngcd.losses.distill import cross_view_distillation
from nngcd.losses.info_nce import info_nce
from nngcd.losses.supcon import supcon
from nngcd.losses.weighting import weighted
from nngcd.methods.classifier import ClassifierConfig, ClassifierMethod
from nngcd.methods.contract import Batch, Task
from nngcd.methods.geometry import Geometry, GeometryConfig
from nngcd.methods.heads import ProjectionHead


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(ClassifierConfig, GeometryConfig):
    """SimGCD's settings; defaults are those of its paper and scripts."""

    supervised_weight: Share = 0.35
    """Share of the supervised terms in the loss (lambda in the paper), in [0, 1]."""
    entropy_weight: NotNegative = 1.0
    """Weight of the mean-entropy term (epsilon); the authors use 2 on CUB, 4 on CIFAR-100, else 1."""
    teacher_temperature_start: Positive = 0.07
    """Temperature of the pseudo-labels in the first epoch."""
    teacher_temperature: Positive = 0.04
    """Temperature of the pseudo-labels after the warm-up."""
    teacher_warmup_epochs: WholeNotNegative = 30
    """Epochs over which the pseudo-labels are sharpened from the start to the final temperature."""
    contrastive_temperature: Positive = 1.0
    """Temperature of the unsupervised contrastive loss."""
    supcon_temperature: Positive = 0.07
    """Temperature of the supervised contrastive loss."""
    n_hidden: AtLeastOne = 2048
    """Width of the projection head's two hidden layers."""
    n_projection: WholeNotNegative = 256
    """Size of the projection the contrastive losses see; 0 contrasts the features themselves, as Hyp-SimGCD does."""


class Method(ClassifierMethod):
    """SimGCD. Labels and pseudo-labels train one cosine classifier; two contrastive losses shape the features."""

    config: Config

    def __init__(self, config: Config, task: Task, *, activation: str = "identity") -> None:
        super().__init__(config, task)
        self.projection = ProjectionHead(
            task.n_features,
            n_hidden=config.n_hidden,
            n_out=config.n_projection,
            activation=activation,
            generator=task.generator,
        )
        self.geometry = Geometry(config)
        self.make_classifier()

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return SimGCD's five terms: the unsupervised ones weighted 1 - lambda, the supervised ones lambda."""
        c = self.config
        projection_vbd = self.projection(batch.features_vbd)
        logits_vbk = self.prototypes(batch.features_vbd)
        unsupervised = {
            **self.pseudo_label_terms(batch, logits_vbk),
            "contrast": self.geometry.at(batch.moment)(partial(info_nce, projection_vbd), c.contrastive_temperature),
        }
        terms = weighted(unsupervised, self.label_terms(batch, projection_vbd, logits_vbk), c.supervised_weight)
        return terms | self.further_terms(batch, logits_vbk)

    def further_terms(self, batch: Batch, logits_vbk: Tensor) -> dict[str, Tensor]:
        """Return what a method built on SimGCD adds to its loss, already weighted. Default: nothing."""
        return {}

    def pseudo_label_terms(self, batch: Batch, logits_vbk: Tensor) -> dict[str, Tensor]:
        """Return the classifier's unsupervised terms: other view, mean entropy and neighbours."""
        c = self.config
        sharpness = teacher_temperature(c, batch.moment.epoch)
        pseudo_label = cross_view_distillation(
            logits_vbk,
            self.judge(batch.features_vbd if batch.teacher_features_vbd is None else batch.teacher_features_vbd),
            student_temperature=c.student_temperature,
            teacher_temperature=sharpness,
        )
        return {
            "pseudo_label": pseudo_label,
            "mean_entropy": c.entropy_weight * self.mean_entropy(logits_vbk),
            **self.neighbour_terms(batch.image_b, logits_vbk, teacher_temperature=sharpness),
        }

    def label_terms(self, batch: Batch, projection_vbd: Tensor, logits_vbk: Tensor) -> dict[str, Tensor]:
        """Return the supervised terms."""
        c, contrast = self.config, self.geometry.at(batch.moment)
        return {
            "classify": labelled_cross_entropy(logits_vbk, batch.labels_b, temperature=c.student_temperature),
            "supcon": contrast(partial(supcon, projection_vbd, batch.labels_b), c.supcon_temperature),
        }

    def assign(self, features_nd: Tensor) -> Tensor:
        """Return the classifier's logits over the student temperature."""
        logits_nk: Tensor = self.prototypes(features_nd)
        return logits_nk / self.config.student_temperature


def teacher_temperature(config: Config, epoch: int) -> float:
    """Return the temperature of the pseudo-labels in an epoch."""
    return linear_warmup(
        epoch, config.teacher_temperature_start, config.teacher_temperature, config.teacher_warmup_epochs
    )
