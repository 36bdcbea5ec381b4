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
from nngcd.core.seeds import torch_generator
from nngcd.heads import ProjectionHead, Prototypes
from nngcd.losses.cross_entropy import labelled_cross_entropy
from nngcd.losses.distill import cross_view_distillation, mean_entropy_gap, remembered_entropy_gap
from nngcd.losses.info_nce import info_nce
from nngcd.losses.neighbours import neighbour_cross_entropy
from nngcd.losses.supcon import supcon
from nngcd.methods.centres import semi_supervised_centres
from nngcd.methods.contract import BaseMethod, Batch, Moment, Overview, Task
from nngcd.methods.neighbours import Neighbours


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """SimGCD's settings; defaults are those of its paper and scripts."""

    supervised_weight: float = 0.35
    """Share of the supervised terms in the loss (lambda in the paper), in [0, 1]."""
    entropy_weight: float = 1.0
    """Weight of the mean-entropy term (epsilon); the authors use 2 on CUB, 4 on CIFAR-100, else 1."""
    entropy_memory: float = 0.0
    """Share of earlier batches in the mean prediction whose entropy this is, in [0, 1); 0 takes each batch for itself
    (paper)."""
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
    prototype_learning_rate: float | None = None
    """How many times the heads' learning rate the directions of the prototypes learn with, their length held fixed;
    when absent it is left to their length, as in the authors' code, where it begins at 3 and drifts."""
    neighbour_weight: float = 0.0
    """Weight of learning from the predictions of an image's nearest neighbours, beside those of its other view; 0 is
    off (paper)."""
    n_neighbours: int = 5
    """How many neighbours; of more than 50,000 images they are looked for in a random sample of so many."""
    neighbour_epochs: int = 5
    """After how many epochs they are found anew."""
    n_hidden: int = 2048
    """Width of the projection head's two hidden layers."""
    n_projection: int = 256
    """Size of the projection the contrastive losses see."""

    def __post_init__(self) -> None:
        for name, what, is_right in (
            ("supervised_weight", "in [0, 1]", 0 <= self.supervised_weight <= 1),
            ("entropy_memory", "in [0, 1)", 0 <= self.entropy_memory < 1),
            ("entropy_weight", "finite and not negative", 0 <= self.entropy_weight < math.inf),
            ("neighbour_weight", "finite and not negative", 0 <= self.neighbour_weight < math.inf),
        ):
            if not is_right:
                raise ConfigError(name, getattr(self, name), f"must be {what}")
        for name in ("student_temperature", "teacher_temperature_start", "teacher_temperature",
                     "contrastive_temperature", "supcon_temperature", "prototype_learning_rate"):  # fmt: skip
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(name, value, "must be positive and finite")
        for name in ("n_neighbours", "neighbour_epochs", "n_hidden", "n_projection"):
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
        self.prototypes = Prototypes(
            task.n_features,
            task.n_clusters,
            generator=task.generator,
            learning_rate=config.prototype_learning_rate,
        )
        self.neighbours = Neighbours(config.n_neighbours) if config.neighbour_weight > 0 else None
        self.mean_k: Tensor | None
        self._next_mean_k: Tensor | None = None
        uniform_k = torch.full((task.n_clusters,), 1 / task.n_clusters)
        self.register_buffer("mean_k", uniform_k if config.entropy_memory else None)

    def places_prototypes(self, epoch: int) -> bool:
        """Whether prototypes are to be placed before this epoch: once, before training."""
        return epoch == 0 and self.config.prototype_start == "matched"

    def looks_before(self, epoch: int, n_epochs: int) -> bool:
        """Whether prototypes are to be placed or neighbours to be seen."""
        return self.places_prototypes(epoch) or self.neighbours is not None

    def look(self, overview: Overview) -> None:
        """Place the prototypes at the clusters, and see every image's neighbours."""
        if self.places_prototypes(overview.epoch):
            place_prototypes(self.prototypes, overview)
        if self.neighbours is not None:
            is_due = overview.epoch % self.config.neighbour_epochs == 0
            generator = torch_generator(overview.seed, "neighbours")
            self.neighbours.see(overview.features_nd, find=is_due, generator=generator)

    def judge(self, features_vbd: Tensor) -> Tensor:
        """Return the logits that pseudo-labels are made of: in SimGCD the classifier is its own teacher."""
        logits_vbk: Tensor = self.prototypes(features_vbd)
        return logits_vbk

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return SimGCD's five terms: (1 - lambda) of what needs no label, lambda of what does."""
        c = self.config
        projection_vbd = self.projection(batch.features_vbd)
        logits_vbk = self.prototypes(batch.features_vbd)
        unsupervised = {
            **self.pseudo_label_terms(batch, logits_vbk),
            "contrast": info_nce(projection_vbd, temperature=c.contrastive_temperature),
        }
        return weighted(unsupervised, self.label_terms(batch, projection_vbd, logits_vbk), c.supervised_weight)

    def pseudo_label_terms(self, batch: Batch, logits_vbk: Tensor) -> dict[str, Tensor]:
        """Return what the classifier learns without labels: from the other view, from neighbours, and to spread."""
        c = self.config
        sharpness = teacher_temperature(c, batch.moment.epoch)
        terms = {
            "pseudo_label": cross_view_distillation(
                logits_vbk,
                self.judge(batch.features_vbd),
                student_temperature=c.student_temperature,
                teacher_temperature=sharpness,
            ),
            "mean_entropy": c.entropy_weight * self._mean_entropy_gap(logits_vbk),
        }
        if self.neighbours is not None:
            terms["neighbours"] = c.neighbour_weight * neighbour_cross_entropy(
                logits_vbk,
                self.judge(self.neighbours.features(batch.image_b)),
                student_temperature=c.student_temperature,
                teacher_temperature=sharpness,
            )
        return terms

    def _mean_entropy_gap(self, logits_vbk: Tensor) -> Tensor:
        c = self.config
        if self.mean_k is None:
            return mean_entropy_gap(logits_vbk, temperature=c.student_temperature)
        # Remembered once the step is made: a batch that does not fit into memory is tried again.
        gap, self._next_mean_k = remembered_entropy_gap(
            logits_vbk, self.mean_k, memory=c.entropy_memory, temperature=c.student_temperature
        )
        return gap

    def label_terms(self, batch: Batch, projection_vbd: Tensor, logits_vbk: Tensor) -> dict[str, Tensor]:
        """Return what is learnt from labels."""
        c = self.config
        return {
            "classify": labelled_cross_entropy(logits_vbk, batch.labels_b, temperature=c.student_temperature),
            "supcon": supcon(projection_vbd, batch.labels_b, temperature=c.supcon_temperature),
        }

    def after_step(self, moment: Moment) -> None:
        """Hold the length of the prototypes where their learning rate is set, and remember the batch's predictions."""
        self.prototypes.hold_length()
        if self._next_mean_k is not None:
            self.mean_k, self._next_mean_k = self._next_mean_k, None

    def settle(self, overview: Overview) -> None:
        """Let go of the training images."""
        if self.neighbours is not None:
            self.neighbours.forget()

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
