"""DCCL: images also learn to find the community they are in (Pu, Zhong and Sebe, CVPR 2023).

Before every epoch all images are linked to their nearest neighbours, and Infomap finds the communities of that graph:
the concepts. GCD's contrastive training then has one more term, the cross-entropy of each image's cosines with the
concepts. Written from the paper's description and the authors' published settings. Departures from their code:

- Batches are those of every method here, half labelled images. Theirs for the concept term are drawn apart, 16 images
  of each of a few concepts; here the images of the contrastive terms are used, those in no concept left out.
- Their learning rate warms up for 5 epochs before its cosine schedule; here it does not.
- A link between labelled images of one class is raised by the neighbour's class (`clustering/communities.py`).
- A concept moves once per step, by the mean of its images; theirs by one after the other, mostly towards the last.
- The weight rises over a share of the epochs, half of them, which in their 200 are the published 100.
- The result is that of the last epoch; theirs is of the epoch that true labels call the best.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.clustering.communities import MIN_SIMILARITY, MIN_SIZE, N_NEIGHBOURS, check_infomap, communities
from nngcd.core.ranges import check_at_least_one, check_not_negative, check_positive, check_share, check_share_below_one
from nngcd.core.schedules import linear_warmup
from nngcd.losses.cross_entropy import labelled_cross_entropy
from nngcd.methods import gcd
from nngcd.methods.contract import Batch, Moment, Overview, Task

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(gcd.Config):
    """DCCL's settings; defaults are those of its paper and code."""

    n_neighbours: int = N_NEIGHBOURS
    """Nearest neighbours that an image is linked to (k1)."""
    min_similarity: float = MIN_SIMILARITY
    """Least cosine of linked images (epsilon), in [0, 1)."""
    min_concept: int = MIN_SIZE
    """Fewest images of a concept; smaller communities are dropped (at most k2 = 4 images in the paper)."""
    concept_temperature: float = 0.05
    """Temperature of the cosines with the concepts."""
    concept_momentum: float = 0.1
    """Share of itself that a concept keeps when it moves towards its images of a batch, in [0, 1]."""
    concept_weight_start: float = 0.04
    """Weight of the concept term in the first epoch."""
    concept_weight: float = 0.4
    """Weight of the concept term after its rise."""
    concept_rise: float = 0.5
    """Share of the epochs over which the weight rises (the paper: 100 of 200), in [0, 1]."""

    def __post_init__(self) -> None:
        gcd.Config.__post_init__(self)
        check_at_least_one(self, "n_neighbours", "min_concept")
        check_not_negative(self, "concept_weight_start", "concept_weight")
        check_share(self, "concept_momentum", "concept_rise")
        check_share_below_one(self, "min_similarity")
        check_positive(self, "concept_temperature")


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

    @classmethod
    def check_machine(cls) -> None:
        """Raise `ResourceError` unless Infomap is installed."""
        check_infomap()

    def looks_before(self, epoch: int, n_epochs: int) -> bool:
        """Whether concepts are wanted: in every epoch."""
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
        is_in_one, n_concepts = self.concept_n >= 0, int(community_n.max()) + 1
        sum_cd = features_nd.new_zeros(n_concepts, features_nd.shape[1])
        sum_cd.index_add_(0, self.concept_n[is_in_one], features_nd[is_in_one])
        self.concepts_cd, self._seen = F.normalize(sum_cd, dim=-1), None
        _LOG.info("epoch %d: %d concepts, %d images in none", overview.epoch, n_concepts, int((~is_in_one).sum()))

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return GCD's two terms, and the cross-entropy of all views of images that are in a concept, weighted."""
        c = self.config
        unit_vbd, concept_b = F.normalize(batch.features_vbd, dim=-1), self.concept_n[batch.image_b]
        self._seen = unit_vbd.detach(), concept_b
        concept = labelled_cross_entropy(unit_vbd @ self.concepts_cd.T, concept_b, temperature=c.concept_temperature)
        return super().loss(batch) | {"concept": self.concept_weight(batch.moment) * concept}

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
            self.concepts_cd = moved_concepts(self.concepts_cd, *self._seen, momentum=self.config.concept_momentum)


def moved_concepts(concepts_cd: Tensor, unit_vbd: Tensor, concept_b: Tensor, *, momentum: float) -> Tensor:
    """Return the concepts: where there are images of one, `momentum` of it and the rest their mean, normalised again.

    Args:
        concepts_cd: directions of the concepts.
        unit_vbd: directions of the images.
        concept_b: the concept of each image, -1 for those in none.
        momentum: share that a concept keeps of itself.
    """
    is_in_one = concept_b >= 0
    mean_bd, concept_b = unit_vbd[:, is_in_one].mean(0), concept_b[is_in_one]
    n_images_c1 = concept_b.bincount(minlength=len(concepts_cd))[:, None]
    mean_cd = torch.zeros_like(concepts_cd).index_add_(0, concept_b, mean_bd) / n_images_c1.clamp_min(1)
    moved_cd = F.normalize(momentum * concepts_cd + (1 - momentum) * mean_cd, dim=-1)
    return torch.where(n_images_c1 > 0, moved_cd, concepts_cd)
