"""Shared code for methods with self-trained prototypes: our additions to the papers, all off in their presets.

They are: where prototypes start and how fast they turn, a mean prediction over several batches, learning from
neighbours, and prototypes for new categories hidden in known clusters (docs/results/parts.md has the gain of each).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from nngcd.clustering.split_and_merge import Moved
from nngcd.core.ranges import AtLeastOne, Checked, NotNegative, Positive, Share, ShareBelowOne, WholeNotNegative
from nngcd.core.seeds import torch_generator
from nngcd.losses.distill import mean_entropy_gap, remembered_entropy_gap
from nngcd.losses.neighbours import neighbour_cross_entropy
from nngcd.methods.centres import place_prototypes
from nngcd.methods.contract import Moment, Overview
from nngcd.methods.neighbours import Neighbours
from nngcd.methods.splitting import SplittingMethod


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassifierConfig(Checked):
    """Settings of the classifier; the defaults are those of the papers."""

    student_temperature: Positive = 0.1
    """Temperature of the student's predictions and of the reported probabilities."""
    entropy_memory: ShareBelowOne = 0.0
    """Share of earlier batches in the mean prediction whose entropy is maximised, in [0, 1); 0 uses each batch alone
    (paper)."""
    prototype_start: Literal["random", "matched"] = "random"
    """Where prototypes start: at random (paper), or at the centres of semi-supervised k-means of the first features."""
    prototype_learning_rate: Positive | None = None
    """Learning rate of the prototypes' directions, as a multiple of the heads' rate, with their length held fixed. When
    absent, their length decides, as in the authors' code, where it starts at 3 and drifts."""
    neighbour_weight: NotNegative = 0.0
    """Weight of learning from the predictions of an image's nearest neighbours, in addition to those of its other view;
    0 is off (paper)."""
    n_neighbours: AtLeastOne = 5
    """Number of neighbours, at most half the images of a cluster of average size. With more than 50,000 images they
    come from an index of all where faiss is installed, otherwise from a random sample of that many."""
    neighbour_epochs: AtLeastOne = 5
    """Epochs between two searches for neighbours."""
    split_epochs: WholeNotNegative = 0
    """Epochs between two searches of known clusters for hidden new categories. Each one found gets the prototype freed
    by merging the two most similar new clusters. 0 is never (paper)."""
    split_level: Share = 0.2
    """False discovery rate of the test of all known clusters: the expected share of wrong splits."""


class ClassifierMethod(SplittingMethod):
    """A method with prototypes; its own `__init__` ends with `make_classifier`."""

    config: ClassifierConfig
    neighbours: Neighbours | None
    mean_k: Tensor | None
    _next_mean_k: Tensor | None

    def make_classifier(self) -> None:
        """Create the prototypes, and the other parts that the settings ask for."""
        c, n_clusters = self.config, self.task.n_clusters
        self.prototypes = self.new_prototypes(c.prototype_learning_rate)
        self.teacher = None
        self.neighbours = Neighbours(c.n_neighbours) if c.neighbour_weight > 0 else None
        mean_k = torch.zeros(len(self.prototypes.weight)).index_fill(0, torch.arange(n_clusters), 1 / n_clusters)
        self.register_buffer("mean_k", mean_k if c.entropy_memory else None)
        self._next_mean_k = None
        self.remember_moves()

    def judge(self, features_vbd: Tensor) -> Tensor:
        """Return the logits for pseudo-labels; here the classifier is its own teacher."""
        logits_vbk: Tensor = self.prototypes(features_vbd)
        return logits_vbk

    def places_prototypes(self, epoch: int) -> bool:
        """Whether to place prototypes before this epoch: once, before training."""
        return epoch == 0 and self.config.prototype_start == "matched"

    def splits_clusters(self, epoch: int) -> bool:
        """Whether to search known clusters before this epoch."""
        return epoch > 0 and self.config.split_epochs > 0 and epoch % self.config.split_epochs == 0

    def looks_before(self, epoch: int, n_epochs: int) -> bool:
        """Whether to place prototypes, search clusters or update neighbours before this epoch."""
        return self.places_prototypes(epoch) or self.splits_clusters(epoch) or self.neighbours is not None

    def look(self, overview: Overview) -> None:
        """Place the prototypes, split off categories hidden in known clusters, and update every image's neighbours."""
        if self.places_prototypes(overview.epoch):
            place_prototypes(self.prototypes, overview)
            for prototypes in self.followers():
                prototypes.load_state_dict(self.prototypes.state_dict())
        if self.splits_clusters(overview.epoch):
            self.split_and_merge(overview)
        if self.neighbours is not None:
            is_due = overview.epoch % self.config.neighbour_epochs == 0
            generator = torch_generator(overview.seed, "neighbours")
            self.neighbours.see(
                overview.features_nd, find=is_due, n_clusters=self.n_clusters, generator=generator
            )  # fmt: skip

    def turn_to_means(self, moved: Moved, unit_nd: Tensor) -> None:
        """Turn the prototypes, and set the expected share of each to its share of the images."""
        has_other_number = moved.n_clusters != self.n_clusters
        super().turn_to_means(moved, unit_nd)
        if self.mean_k is not None:
            share_k = moved.cluster_n.bincount(minlength=len(self.mean_k)) / len(moved.cluster_n)
            # With another number of clusters, every share changes.
            changed_m = slice(None) if has_other_number else moved.cluster_m
            self.mean_k[changed_m] = share_k[changed_m].to(self.mean_k)

    def trim(self) -> None:
        """Free the room kept for clusters that were never added."""
        super().trim()
        if self.mean_k is not None:
            self.mean_k = self.mean_k[: self.n_clusters].clone()

    def mean_entropy(self, logits_vbk: Tensor) -> Tensor:
        """Return how far the mean prediction, of this batch or also of earlier ones, is from equal shares."""
        c = self.config
        if self.mean_k is None:
            return mean_entropy_gap(logits_vbk, temperature=c.student_temperature)
        # Stored only after the step: a batch that does not fit into memory is tried again.
        gap, self._next_mean_k = remembered_entropy_gap(
            logits_vbk, self.mean_k[: logits_vbk.shape[-1]], memory=c.entropy_memory, temperature=c.student_temperature
        )
        return gap

    def neighbour_terms(self, image_b: Tensor, logits_vbk: Tensor, *, teacher_temperature: float) -> dict[str, Tensor]:
        """Return the loss terms of learning from neighbours; none if that is off."""
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
        """Restore the prototypes' length if their learning rate is set, and store the batch's predictions."""
        self.prototypes.hold_length()
        if self.mean_k is not None and self._next_mean_k is not None:
            self.mean_k[: len(self._next_mean_k)] = self._next_mean_k
            self._next_mean_k = None

    def settle(self, overview: Overview) -> None:
        """Forget the training images."""
        if self.neighbours is not None:
            self.neighbours.forget()
