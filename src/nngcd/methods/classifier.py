"""What methods share whose prototypes learn from their own predictions: what we add to the papers, all of it off there.

Where prototypes start and how fast they turn, a mean prediction that remembers earlier batches, learning from
neighbours, and prototypes for new categories that hide in known clusters (docs/research.md has what each of them
gains).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from nngcd.clustering.split_and_merge import Moved
from nngcd.core.ranges import check_at_least_one, check_not_negative, check_positive, check_share, check_share_below_one
from nngcd.core.seeds import torch_generator
from nngcd.losses.distill import mean_entropy_gap, remembered_entropy_gap
from nngcd.losses.neighbours import neighbour_cross_entropy
from nngcd.methods.centres import place_prototypes
from nngcd.methods.contract import Moment, Overview
from nngcd.methods.neighbours import Neighbours
from nngcd.methods.splitting import SplittingMethod


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
    split_epochs: int = 0
    """After how many epochs known clusters are searched for new categories that hide in them, each of which then gets
    the prototype of a new cluster that two others can do without; 0 is never (paper)."""
    split_level: float = 0.2
    """Share of the splits that may be wrong, in the mean: false discovery rate of the test of all known clusters."""

    def __post_init__(self) -> None:
        check_share_below_one(self, "entropy_memory")
        check_not_negative(self, "neighbour_weight", "split_epochs")
        check_share(self, "split_level")
        check_positive(self, "student_temperature", "prototype_learning_rate")
        check_at_least_one(self, "n_neighbours", "neighbour_epochs")


class ClassifierMethod(SplittingMethod):
    """A method with prototypes; its own `__init__` ends with `make_classifier`."""

    config: ClassifierConfig
    neighbours: Neighbours | None
    mean_k: Tensor | None
    _next_mean_k: Tensor | None

    def make_classifier(self) -> None:
        """Make the prototypes, and what the settings want beside them."""
        c, n_clusters = self.config, self.task.n_clusters
        self.prototypes = self.new_prototypes(c.prototype_learning_rate)
        self.teacher = None
        self.neighbours = Neighbours(c.n_neighbours) if c.neighbour_weight > 0 else None
        mean_k = torch.zeros(len(self.prototypes.weight)).index_fill(0, torch.arange(n_clusters), 1 / n_clusters)
        self.register_buffer("mean_k", mean_k if c.entropy_memory else None)
        self._next_mean_k = None
        self.remember_moves()

    def judge(self, features_vbd: Tensor) -> Tensor:
        """Return the logits that pseudo-labels are made of: here the classifier is its own teacher."""
        logits_vbk: Tensor = self.prototypes(features_vbd)
        return logits_vbk

    def places_prototypes(self, epoch: int) -> bool:
        """Whether prototypes are to be placed before this epoch: once, before training."""
        return epoch == 0 and self.config.prototype_start == "matched"

    def splits_clusters(self, epoch: int) -> bool:
        """Whether known clusters are to be searched before this epoch."""
        return epoch > 0 and self.config.split_epochs > 0 and epoch % self.config.split_epochs == 0

    def looks_before(self, epoch: int, n_epochs: int) -> bool:
        """Whether prototypes are to be placed, clusters to be searched or neighbours to be seen."""
        return self.places_prototypes(epoch) or self.splits_clusters(epoch) or self.neighbours is not None

    def look(self, overview: Overview) -> None:
        """Place the prototypes at the clusters, free what hides in known ones, and see every image's neighbours."""
        if self.places_prototypes(overview.epoch):
            place_prototypes(self.prototypes, overview)
            if self.teacher is not None:
                self.teacher.load_state_dict(self.prototypes.state_dict())
        if self.splits_clusters(overview.epoch):
            self.split_and_merge(overview)
        if self.neighbours is not None:
            is_due = overview.epoch % self.config.neighbour_epochs == 0
            generator = torch_generator(overview.seed, "neighbours")
            self.neighbours.see(
                overview.features_nd, find=is_due, n_clusters=self.n_clusters, generator=generator
            )  # fmt: skip

    def turn_to_means(self, moved: Moved, unit_nd: Tensor) -> None:
        """Turn the prototypes, and expect as many predictions of each as it has images."""
        has_other_number = moved.n_clusters != self.n_clusters
        super().turn_to_means(moved, unit_nd)
        if self.mean_k is not None:
            share_k = moved.cluster_n.bincount(minlength=len(self.mean_k)) / len(moved.cluster_n)
            # With another number of clusters every share is another one.
            changed_m = slice(None) if has_other_number else moved.cluster_m
            self.mean_k[changed_m] = share_k[changed_m].to(self.mean_k)

    def trim(self) -> None:
        """Let go of what was kept for clusters that might have been added."""
        super().trim()
        if self.mean_k is not None:
            self.mean_k = self.mean_k[: self.n_clusters].clone()

    def mean_entropy(self, logits_vbk: Tensor) -> Tensor:
        """Return how far the mean prediction, of this batch or of earlier ones, too, is from equal shares."""
        c = self.config
        if self.mean_k is None:
            return mean_entropy_gap(logits_vbk, temperature=c.student_temperature)
        # Remembered once the step is made: a batch that does not fit into memory is tried again.
        gap, self._next_mean_k = remembered_entropy_gap(
            logits_vbk, self.mean_k[: logits_vbk.shape[-1]], memory=c.entropy_memory, temperature=c.student_temperature
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
        if self.mean_k is not None and self._next_mean_k is not None:
            self.mean_k[: len(self._next_mean_k)] = self._next_mean_k
            self._next_mean_k = None

    def settle(self, overview: Overview) -> None:
        """Let go of the training images."""
        if self.neighbours is not None:
            self.neighbours.forget()
