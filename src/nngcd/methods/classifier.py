"""What methods share whose prototypes learn from their own predictions: what we add to the papers, all of it off there.

Where prototypes start and how fast they turn, a mean prediction that remembers earlier batches, and learning from
neighbours (docs/research.md has what each of them gains).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from nngcd.core.ranges import check_at_least_one, check_not_negative, check_positive, check_share_below_one
from nngcd.core.seeds import torch_generator
from nngcd.heads import Prototypes
from nngcd.losses.distill import mean_entropy_gap, remembered_entropy_gap
from nngcd.losses.neighbours import neighbour_cross_entropy
from nngcd.methods.centres import place_prototypes
from nngcd.methods.contract import BaseMethod, Moment, Overview
from nngcd.methods.neighbours import Neighbours


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassifierConfig:
    """Settings of the classifier; with the defaults it is that of the papers."""

    student_temperature: float = 0.1
    """Temperature of the predictions that learn, and of the probabilities that are reported."""
    entropy_memory: float = 0.0
    """Share of earlier batches in the mean prediction whose entropy is raised, in [0, 1); 0 takes each batch for itself
    (paper)."""
    prototype_start: Literal["random", "matched"] = "random"
    """Prototypes begin at random (paper), or at the centres of semi-supervised k-means of the first features."""
    prototype_learning_rate: float | None = None
    """How many times the heads' learning rate the directions of the prototypes learn with, their length held fixed;
    when absent it is left to their length, as in the authors' code, where it begins at 3 and drifts."""
    neighbour_weight: float = 0.0
    """Weight of learning from the predictions of an image's nearest neighbours, beside those of its other view; 0 is
    off (paper)."""
    n_neighbours: int = 5
    """How many neighbours, but at most half the images of a cluster of average size; of more than 50,000 images they
    are looked for in a random sample of so many."""
    neighbour_epochs: int = 5
    """After how many epochs they are found anew."""

    def __post_init__(self) -> None:
        check_share_below_one(self, "entropy_memory")
        check_not_negative(self, "neighbour_weight")
        check_positive(self, "student_temperature", "prototype_learning_rate")
        check_at_least_one(self, "n_neighbours", "neighbour_epochs")


class ClassifierMethod(BaseMethod):
    """A method with prototypes; its own `__init__` ends with `make_classifier`."""

    config: ClassifierConfig
    prototypes: Prototypes
    neighbours: Neighbours | None
    mean_k: Tensor | None
    _next_mean_k: Tensor | None

    def make_classifier(self) -> None:
        """Make the prototypes, and what the settings want beside them."""
        c, n_clusters = self.config, self.task.n_clusters
        self.prototypes = Prototypes(
            self.task.n_features, n_clusters, generator=self.task.generator, learning_rate=c.prototype_learning_rate
        )
        self.neighbours = Neighbours(c.n_neighbours) if c.neighbour_weight > 0 else None
        self.register_buffer("mean_k", torch.full((n_clusters,), 1 / n_clusters) if c.entropy_memory else None)
        self._next_mean_k = None

    def judge(self, features_vbd: Tensor) -> Tensor:
        """Return the logits that pseudo-labels are made of: here the classifier is its own teacher."""
        logits_vbk: Tensor = self.prototypes(features_vbd)
        return logits_vbk

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
            self.neighbours.see(
                overview.features_nd, find=is_due, n_clusters=self.task.n_clusters, generator=generator
            )  # fmt: skip

    def mean_entropy(self, logits_vbk: Tensor) -> Tensor:
        """Return how far the mean prediction, of this batch or of earlier ones, too, is from equal shares."""
        c = self.config
        if self.mean_k is None:
            return mean_entropy_gap(logits_vbk, temperature=c.student_temperature)
        # Remembered once the step is made: a batch that does not fit into memory is tried again.
        gap, self._next_mean_k = remembered_entropy_gap(
            logits_vbk, self.mean_k, memory=c.entropy_memory, temperature=c.student_temperature
        )
        return gap

    def neighbour_terms(self, image_b: Tensor, logits_vbk: Tensor, *, teacher_temperature: float) -> dict[str, Tensor]:
        """Return what images learn from what their neighbours are taken for; nothing where that is off."""
        if self.neighbours is None:
            return {}
        c = self.config
        term = neighbour_cross_entropy(
            logits_vbk,
            self.judge(self.neighbours.features(image_b)),
            student_temperature=c.student_temperature,
            teacher_temperature=teacher_temperature,
        )
        return {"neighbours": c.neighbour_weight * term}

    def after_step(self, moment: Moment) -> None:
        """Hold the length of the prototypes where their learning rate is set, and remember the batch's predictions."""
        self.prototypes.hold_length()
        if self._next_mean_k is not None:
            self.mean_k, self._next_mean_k = self._next_mean_k, None

    def settle(self, overview: Overview) -> None:
        """Let go of the training images."""
        if self.neighbours is not None:
            self.neighbours.forget()
