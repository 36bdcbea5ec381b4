"""DCCL: contrast with communities of the neighbour graph (Pu, Zhong and Sebe, CVPR 2023).

Before every epoch all images are linked to their nearest neighbours, and Infomap finds the communities of that graph:
the concepts. GCD's contrastive training then has one more term, the cross-entropy of each image's cosines with the
concepts. Written from the paper's description and the authors' published settings. Departures from their code:

- Their learning rate warms up for 5 epochs before its cosine schedule; here it does not.
- A link between labelled images of one class is raised by the neighbour's class (`clustering/communities.py`).
- The weight rises over a share of the epochs, half of them, which in their 200 are the published 100.
- The result is that of the last epoch; they also report the epoch that is best by true labels.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.clustering.communities import MIN_SIMILARITY, MIN_SIZE, N_NEIGHBOURS, check_infomap, communities
from nngcd.core.ranges import AtLeastOne, NotNegative, Positive, Share, ShareBelowOne
from nngcd.core.schedules import linear_warmup
from nngcd.losses.cross_entropy import labelled_cross_entropy
from nngcd.methods import gcd
from nngcd.methods.batches import Batches, Labels, parts, repeated
from nngcd.methods.concepts import images_of_concepts, mean_concepts, moved_concepts, moved_in_turn
from nngcd.methods.contract import Batch, Moment, Overview, Task
from nngcd.views.loading import batches_of

_LOG = logging.getLogger(__name__)
N_EACH = 16
"""Images of a concept in a batch drawn for the concept term."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(gcd.Config):
    """DCCL's settings; defaults are those of its paper and code."""

    n_neighbours: AtLeastOne = N_NEIGHBOURS
    """Nearest neighbours that an image is linked to (k1)."""
    min_similarity: ShareBelowOne = MIN_SIMILARITY
    """Least cosine of linked images (epsilon), in [0, 1)."""
    min_concept: AtLeastOne = MIN_SIZE
    """Fewest images of a concept; smaller communities are dropped (at most k2 = 4 images in the paper)."""
    concept_temperature: Positive = 0.05
    """Temperature of the cosines with the concepts."""
    concept_momentum: Share = 0.1
    """Momentum of a concept when it moves towards its images of a batch, in [0, 1]."""
    concept_moves: Literal["mean", "in_turn"] = "mean"
    """Movement of a concept in a step: once, by the mean of its images, or by each in turn, as in the authors' code."""
    concept_images: Literal["batch", "own"] = "batch"
    """Images of the concept term: those of the other terms, or as many extra ones, 16 per concept (authors' code)."""
    concept_weight_start: NotNegative = 0.04
    """Weight of the concept term in the first epoch."""
    concept_weight: NotNegative = 0.4
    """Weight of the concept term after it has risen."""
    concept_rise: Share = 0.5
    """Share of the epochs over which the weight rises (the paper: 100 of 200), in [0, 1]."""


class Method(gcd.Method):
    """DCCL. The concepts are communities of normalised features, the very ones that are clustered at the end."""

    config: Config
    concept_n: Tensor
    concepts_cd: Tensor

    def __init__(self, config: Config, task: Task) -> None:
        super().__init__(config, task)
        # Not saved: a resumed epoch finds the concepts again, from the same features.
        self.register_buffer("concept_n", torch.zeros(0, dtype=torch.int64), persistent=False)
        self.register_buffer("concepts_cd", torch.zeros(0, task.n_features), persistent=False)
        self._seen: tuple[Tensor, Tensor] | None = None
        self.n_shared: int | None = None

    @classmethod
    def check_machine(cls) -> None:
        """Raise `ResourceError` unless Infomap is installed."""
        check_infomap()

    def looks_before(self, epoch: int, n_epochs: int) -> bool:
        """Whether this epoch needs concepts: every epoch does."""
        return True

    @torch.no_grad()
    def look(self, overview: Overview) -> None:
        """Find the concepts: communities of all images, each remembered as the direction of its mean feature."""
        c, features_nd = self.config, overview.features_nd
        community_n = communities(
            features_nd, overview.labels_n, n_neighbours=c.n_neighbours, min_similarity=c.min_similarity,
            min_size=c.min_concept, seed=overview.seed,
        )  # fmt: skip
        self.concept_n = torch.from_numpy(community_n).to(features_nd.device)
        n_concepts, n_in_none = int(community_n.max()) + 1, int((community_n < 0).sum())
        self.concepts_cd, self._seen = mean_concepts(features_nd, self.concept_n, n_concepts), None
        _LOG.info("epoch %d: %d concepts, %d images in none", overview.epoch, n_concepts, n_in_none)

    def draw(self, labels: Labels, batch_size: int, generator: torch.Generator, *, drop_last: bool = True) -> Batches:
        """Return batches half labelled, followed by as many images of a few concepts if these are drawn apart."""
        if self.config.concept_images == "batch" or not len(self.concepts_cd):
            self.n_shared = None
            return super().draw(labels, batch_size, generator, drop_last=drop_last)
        shared, concept_n = super().draw(labels, batch_size, generator), self.concept_n.cpu()
        own = repeated(lambda: batches_of(images_of_concepts(concept_n, N_EACH, generator), batch_size), len(shared))
        self.n_shared = len(shared[0])
        return [torch.cat(pair) for pair in zip(shared, own, strict=True)]

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return GCD's two terms, and the cross-entropy of all views of images that are in a concept, weighted."""
        c, (shared, own) = self.config, parts(batch, self.n_shared)
        unit_vbd, concept_b = F.normalize(own.features_vbd, dim=-1), self.concept_n[own.image_b]
        self._seen = unit_vbd.detach(), concept_b
        concept = labelled_cross_entropy(unit_vbd @ self.concepts_cd.T, concept_b, temperature=c.concept_temperature)
        return super().loss(shared) | {"concept": self.concept_weight(batch.moment) * concept}

    def concept_weight(self, moment: Moment) -> float:
        """Return the weight of the concept term in an epoch."""
        c, n_rising = self.config, round(self.config.concept_rise * moment.n_epochs)
        return linear_warmup(moment.epoch, c.concept_weight_start, c.concept_weight, n_rising)

    @torch.no_grad()
    def after_step(self, moment: Moment) -> None:
        """Move the concepts of the batch towards its features, as they were before the step; no gradient is involved.

        Not in `loss`, which is computed again when memory runs out; the authors' code does it in the backward pass.
        """
        if self._seen is not None:
            move = moved_in_turn if self.config.concept_moves == "in_turn" else moved_concepts
            self.concepts_cd = move(self.concepts_cd, *self._seen, momentum=self.config.concept_momentum)
