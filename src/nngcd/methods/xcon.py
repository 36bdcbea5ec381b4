"""XCon: GCD's contrast among all images, and again among those that looked alike before training.

Fei, Zhao, Yang and Zhao, BMVC 2022. k-means of the pre-trained features shares the images out to a few experts. What an
expert's images have in common, a background for example, does not tell them apart, so their contrast is about detail.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nngcd.clustering.kmeans import KMeans
from nngcd.core.ranges import AtLeastOne, NotNegative
from nngcd.methods import gcd
from nngcd.methods.batches import Batches, Labels, parts, repeated
from nngcd.methods.contract import Batch, Overview, Task
from nngcd.views.loading import balanced_batches


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(gcd.Config):
    """XCon's settings; defaults are those of its paper and code."""

    n_experts: AtLeastOne = 8
    """Groups of images that look alike before training, each with a projection head of its own."""
    fine_weight: NotNegative = 0.1
    """Weight of the contrast within the groups, in addition to that of all images."""
    expert_images: Literal["batch", "own"] = "batch"
    """Images that an expert contrasts: its own among the shared batch, or extra ones drawn for it alone, half of them
    labelled, as in the authors' code."""


class Method(gcd.Method):
    """XCon. The heads are discarded in the end, and the features are clustered as GCD's are.

    The authors keep the epoch whose clusters fit the true labels of the old classes best. Nobody who has a use for the
    result has those, so here it is the last epoch.
    """

    config: Config
    remembers = ("expert_n",)
    expert_n: Tensor

    def __init__(self, config: Config, task: Task) -> None:
        super().__init__(config, task)
        self.expert_heads = nn.ModuleList(gcd.ContrastHead(config, task) for _ in range(config.n_experts))
        self.register_buffer("expert_n", torch.zeros(0, dtype=torch.int64), persistent=False)
        self.n_shared: int | None = None

    def looks_before(self, epoch: int, n_epochs: int) -> bool:
        """Whether to share out the images before this epoch: once, before training."""
        return epoch == 0

    def look(self, overview: Overview) -> None:
        """Share the images out by k-means of their normalised features; fewer images than experts leave some idle."""
        n_groups = min(self.config.n_experts, len(overview.features_nd))
        k_means = KMeans(n_groups, random_state=overview.seed).fit(F.normalize(overview.features_nd, dim=-1))
        self.expert_n = k_means.labels_

    def draw(self, labels: Labels, batch_size: int, generator: torch.Generator, *, drop_last: bool = True) -> Batches:
        """Return batches half labelled, followed by a share of a batch for every expert if these draw their own.

        The epoch then ends when all images and those of every expert have been drawn as often as they are. Batches that
        are used up before are drawn again.
        """
        if self.config.expert_images == "batch":
            return super().draw(labels, batch_size, generator, drop_last=drop_last)
        n_own, everything = max(batch_size // self.config.n_experts, 1), torch.arange(len(labels))
        expert_n = self.expert_n.cpu()
        own = [(everything[expert_n == expert], n_own) for expert in range(self.config.n_experts)]
        groups = [(everything, batch_size), *((image_m, size) for image_m, size in own if len(image_m))]
        n_batches = max(1, *(len(image_m) // size for image_m, size in groups))
        drawn = [_drawn(image_m, labels, size, n_batches, generator) for image_m, size in groups]
        self.n_shared = len(drawn[0][0])
        return [torch.cat(step) for step in zip(*drawn, strict=True)]

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the coarse terms, which are GCD's, and the fine ones: its paper's L = L_coarse + alpha L_fine."""
        shared, own = parts(batch, self.n_shared)
        return super().loss(shared) | self._fine_terms(own)

    def _fine_terms(self, batch: Batch) -> dict[str, Tensor]:
        """Return the mean over the experts of GCD's terms among each one's images, with their weight.

        One batch may serve both, which costs the tail nothing; an expert then meets its images as often as they come.
        One with fewer than two of them in the batch adds 0 (the losses see to it, and keep its head in the graph). The
        mean is over all experts all the same, so that the weight of one does not depend on which others are absent.
        """
        expert_b = self.expert_n[batch.image_b]
        terms = []
        for expert, head in enumerate(self.expert_heads):
            is_own_b = expert_b == expert
            z_vbd = head(batch.features_vbd[:, is_own_b])
            contrast = self.geometry.at(batch.moment)
            terms.append(gcd.contrast_terms(z_vbd, batch.labels_b[is_own_b], self.config, contrast))
        weight = self.config.fine_weight / self.config.n_experts
        return {f"fine_{name}": weight * torch.stack([term[name] for term in terms]).sum() for name in terms[0]}


def _drawn(image_m: Tensor, labels: Labels, batch_size: int, n_batches: int, generator: torch.Generator) -> Batches:
    """Return batches of some of the images, half of them labelled."""
    own = labels[image_m.numpy()]
    places = repeated(lambda: balanced_batches(own, batch_size, generator), n_batches)
    return [image_m[place_b] for place_b in places]
