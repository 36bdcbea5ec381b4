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
    entropy_of: Literal["batch", "data"] = "batch"
    """Whose mean prediction this is: the batch's, half of which is labelled and so of old classes (paper), or that of
    all images: labelled and unlabelled ones count as often as they are in the data."""
    entropy_prior: float = 0.0
    """How far the clusters' sizes may differ, in [0, 1): the mean prediction is drawn to its own power of this, instead
    of to equal sizes (0, paper)."""
    pseudo_label_balance: float = 0.0
    """Power of the mean pseudo-label so far that pseudo-labels are divided by, in [0, 1]; 0 is off (paper)."""
    known_projection: float = 0.0
    """Share of the gradients of unlabelled images within the span of the old classes that is taken away, less where an
    image itself lies in that span (after EAGC's elastic projection, Zheng et al. 2026); 0 is off (paper)."""
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
        self.register_buffer("target_mean_k", uniform_k.clone() if config.pseudo_label_balance else None)
        self.labelled_share = 0.5
        self.register_buffer("known_dd", None)

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
        self.labelled_share = float((overview.labels_n >= 0).float().mean())
        if self.config.known_projection:
            self.known_dd = span_of_old_classes(overview)
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
        batch = self.projected(batch)
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
                self._balanced(self.judge(batch.features_vbd), sharpness, batch.labels_b),
                student_temperature=c.student_temperature,
                teacher_temperature=sharpness,
            ),
            "mean_entropy": c.entropy_weight * self._mean_entropy_gap(logits_vbk, batch.labels_b),
        }
        if self.neighbours is not None:
            terms["neighbours"] = c.neighbour_weight * neighbour_cross_entropy(
                logits_vbk,
                self._balanced(self.judge(self.neighbours.features(batch.image_b)), sharpness, None),
                student_temperature=c.student_temperature,
                teacher_temperature=sharpness,
            )
        return terms

    def _weights(self, labels_b: Tensor) -> Tensor:
        """Return how much each image counts in a mean over all images, 1 on average."""
        is_labelled_b = (labels_b >= 0).float()
        n_labelled, n = is_labelled_b.sum(), len(labels_b)
        if self.config.entropy_of == "batch" or n_labelled in (0, n):
            return torch.ones_like(is_labelled_b)
        share = self.labelled_share
        return is_labelled_b * (share * n / n_labelled) + (1 - is_labelled_b) * ((1 - share) * n / (n - n_labelled))

    def _balanced(self, logits: Tensor, temperature: float, labels_b: Tensor | None) -> Tensor:
        power = self.config.pseudo_label_balance
        if not power:
            return logits
        if labels_b is not None:
            target_vbk = (logits.detach() / temperature).softmax(-1)
            batch_k = (target_vbk * self._weights(labels_b)[:, None]).mean((0, 1))
            self.target_mean_k = 0.95 * self.target_mean_k + 0.05 * batch_k
        return logits - power * temperature * (self.target_mean_k * self.task.n_clusters).clamp(min=1e-3).log()

    def projected(self, batch: Batch) -> Batch:
        """Return the batch with features whose gradients, where unlabelled, lose a part of the known span."""
        if self.known_dd is None or not batch.features_vbd.requires_grad:
            return batch
        known_dd, share = self.known_dd, self.config.known_projection
        features_vbd = batch.features_vbd * 1.0
        unit_vbd = F.normalize(features_vbd.detach(), dim=-1)
        energy_vb1 = ((unit_vbd @ known_dd) * unit_vbd).sum(-1, keepdim=True)
        taken_vb1 = share * (1 - energy_vb1) * (batch.labels_b < 0)[:, None]
        features_vbd.register_hook(lambda grad_vbd: grad_vbd - taken_vb1 * (grad_vbd @ known_dd))
        return batch._replace(features_vbd=features_vbd)

    def _mean_entropy_gap(self, logits_vbk: Tensor, labels_b: Tensor) -> Tensor:
        c = self.config
        if self.mean_k is None:
            return mean_entropy_gap(logits_vbk, temperature=c.student_temperature)
        # Remembered once the step is made: a batch that does not fit into memory is tried again.
        gap, self._next_mean_k = remembered_entropy_gap(
            logits_vbk,
            self.mean_k,
            memory=c.entropy_memory,
            temperature=c.student_temperature,
            weight_b=self._weights(labels_b),
            power=c.entropy_prior,
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
def span_of_old_classes(overview: Overview) -> Tensor:
    """Return the projection onto the span of the old classes' mean directions."""
    is_labelled_n = overview.labels_n >= 0
    labels_m = overview.labels_n[is_labelled_n].to(overview.features_nd.device)
    unit_md = F.normalize(overview.features_nd[is_labelled_n.to(overview.features_nd.device)], dim=-1)
    sums_cd = unit_md.new_zeros(int(labels_m.max()) + 1, unit_md.shape[1]).index_add_(0, labels_m, unit_md)
    # The directions that carry nine tenths of what the classes' centres are.
    _, s, vh = torch.linalg.svd(F.normalize(sums_cd, dim=-1), full_matrices=False)
    n = int(((s**2).cumsum(0) / (s**2).sum() < 0.9).sum()) + 1
    return vh[:n].T @ vh[:n]


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
