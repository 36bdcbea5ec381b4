"""SimGCD: a parametric classifier that learns from its own sharpened predictions (Wen et al., ICCV 2023)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.core.errors import ConfigError
from nngcd.core.schedules import linear_warmup
from nngcd.heads import ProjectionHead, Prototypes
from nngcd.losses.cross_entropy import labelled_cross_entropy
from nngcd.losses.distill import cross_view_distillation, mean_entropy_gap
from nngcd.losses.info_nce import info_nce
from nngcd.losses.supcon import supcon
from nngcd.methods.centres import semi_supervised_centres
from nngcd.methods.contract import BaseMethod, Batch, Overview, Task


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """SimGCD's settings; defaults are those of its paper and scripts."""

    supervised_weight: float = 0.35
    """Share of the supervised terms in the loss (lambda in the paper), in [0, 1]."""
    entropy_weight: float = 1.0
    """Weight of the mean-entropy term (epsilon); the authors use 2 on CUB, 4 on CIFAR-100, else 1."""
    student_temperature: float = 0.1
    """Temperature of the predictions that learn, and of the probabilities that are reported."""
    teacher_temperature_start: float = 0.07
    """Temperature of the pseudo-labels in the first epoch."""
    teacher_temperature: float = 0.04
    """Temperature of the pseudo-labels after the warm-up."""
    teacher_warmup_epochs: int = 30
    """Epochs over which the pseudo-labels are sharpened from the start to the final temperature."""
    contrastive_temperature: float = 1.0
    """Temperature of the unsupervised contrastive loss."""
    supcon_temperature: float = 0.07
    """Temperature of the supervised contrastive loss."""
    prototype_start: Literal["random", "matched"] = "random"
    """Prototypes begin at random (paper), or at the centres of semi-supervised k-means of the first features."""
    n_hidden: int = 2048
    """Width of the projection head's two hidden layers."""
    n_projection: int = 256
    """Size of the projection the contrastive losses see."""

    def __post_init__(self) -> None:
        if not 0 <= self.supervised_weight <= 1:
            raise ConfigError("supervised_weight", self.supervised_weight, "must be in [0, 1]")
        if not 0 <= self.entropy_weight < math.inf:
            raise ConfigError("entropy_weight", self.entropy_weight, "must be finite and not negative")
        for name in ("student_temperature", "teacher_temperature_start", "teacher_temperature",
                     "contrastive_temperature", "supcon_temperature"):  # fmt: skip
            if getattr(self, name) <= 0:
                raise ConfigError(name, getattr(self, name), "must be positive")
        for name in ("n_hidden", "n_projection"):
            if getattr(self, name) < 1:
                raise ConfigError(name, getattr(self, name), "must be at least 1")


class Method(BaseMethod):
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
        self.prototypes = Prototypes(task.n_features, task.n_clusters, generator=task.generator)

    def looks_before(self, epoch: int, n_epochs: int) -> bool:
        """Whether prototypes are to be placed: once, before training."""
        return epoch == 0 and self.config.prototype_start == "matched"

    def look(self, overview: Overview) -> None:
        """Place the prototypes at the clusters."""
        place_prototypes(self.prototypes, overview)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return SimGCD's five terms: (1 - lambda) of what needs no label, lambda of what does."""
        c = self.config
        projection_vbd = self.projection(batch.features_vbd)
        logits_vbk = self.prototypes(batch.features_vbd)
        sharpness = teacher_temperature(c, batch.moment.epoch)
        distillation = cross_view_distillation(
            logits_vbk, logits_vbk, student_temperature=c.student_temperature, teacher_temperature=sharpness
        )
        unsupervised = {
            "pseudo_label": distillation,
            "mean_entropy": c.entropy_weight * mean_entropy_gap(logits_vbk, temperature=c.student_temperature),
            "contrast": info_nce(projection_vbd, temperature=c.contrastive_temperature),
        }
        supervised = {
            "classify": labelled_cross_entropy(logits_vbk, batch.labels_b, temperature=c.student_temperature),
            "supcon": supcon(projection_vbd, batch.labels_b, temperature=c.supcon_temperature),
        }
        return weighted(unsupervised, supervised, c.supervised_weight)

    def assign(self, features_nd: Tensor) -> Tensor:
        """Return the classifier's logits over the student temperature."""
        logits_nk: Tensor = self.prototypes(features_nd)
        return logits_nk / self.config.student_temperature


@torch.no_grad()
def place_prototypes(prototypes: Prototypes, overview: Overview) -> None:
    """Turn each prototype towards the centre of its cluster: old classes where their labels are, new ones in between.

    The centres are those of semi-supervised k-means of the normalised features. Only directions are set; the norms, on
    which the speed of learning depends (see `Prototypes`), stay as they were drawn.
    """
    centres_kd = semi_supervised_centres(overview, len(prototypes.weight))
    norms_k1 = torch.linalg.vector_norm(prototypes.weight, dim=-1, keepdim=True)
    prototypes.weight.copy_(F.normalize(centres_kd.to(prototypes.weight), dim=-1) * norms_k1)


def teacher_temperature(config: Config, epoch: int) -> float:
    """Return the temperature of the pseudo-labels in an epoch."""
    return linear_warmup(
        epoch, config.teacher_temperature_start, config.teacher_temperature, config.teacher_warmup_epochs
    )


def weighted(unsupervised: dict[str, Tensor], supervised: dict[str, Tensor], share: float) -> dict[str, Tensor]:
    """Return all terms, the unsupervised ones weighted 1 - share and the supervised ones by the share."""
    return {name: (1 - share) * term for name, term in unsupervised.items()} | {
        name: share * term for name, term in supervised.items()
    }
