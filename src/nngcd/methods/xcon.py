"""XCon: GCD's contrast among all images, and again among those that looked alike before training.

Fei, Zhao, Yang and Zhao, BMVC 2022. k-means of the pre-trained features shares the images out to a few experts. What an
expert's images have in common, a background for example, does not tell them apart, so their contrast is about detail.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nngcd.clustering.kmeans import KMeans
from nngcd.core.ranges import check_at_least_one, check_not_negative
from nngcd.methods import gcd
from nngcd.methods.contract import Batch, Overview, Task


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(gcd.Config):
    """XCon's settings; defaults are those of its paper and code."""

    n_experts: int = 8
    """Groups of images that look alike before training, each with a projection head of its own."""
    fine_weight: float = 0.1
    """Weight of the contrast within the groups, beside that of all images."""

    def __post_init__(self) -> None:
        gcd.Config.__post_init__(self)
        check_at_least_one(self, "n_experts")
        check_not_negative(self, "fine_weight")


class Method(gcd.Method):
    """XCon. The heads are discarded in the end, and the features are clustered as GCD's are.

    The authors keep the epoch whose clusters fit the true labels of the old classes best. Nobody who has a use for the
    result has those, so here it is the last epoch.
    """

    config: Config
    remembers: ClassVar[tuple[str, ...]] = ("expert_n",)
    expert_n: Tensor

    def __init__(self, config: Config, task: Task) -> None:
        super().__init__(config, task)
        self.expert_heads = nn.ModuleList(gcd.ContrastHead(config, task) for _ in range(config.n_experts))
        self.register_buffer("expert_n", torch.zeros(0, dtype=torch.int64), persistent=False)

    def looks_before(self, epoch: int, n_epochs: int) -> bool:
        """Whether the images are to be shared out: once, before training."""
        return epoch == 0

    def look(self, overview: Overview) -> None:
        """Share the images out by k-means of their normalised features; fewer images than experts leave some idle."""
        n_groups = min(self.config.n_experts, len(overview.features_nd))
        k_means = KMeans(n_groups, random_state=overview.seed).fit(F.normalize(overview.features_nd, dim=-1))
        self.expert_n = k_means.labels_

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the coarse terms, which are GCD's, and the fine ones: its paper's L = L_coarse + alpha L_fine."""
        return super().loss(batch) | self._fine_terms(batch)

    def _fine_terms(self, batch: Batch) -> dict[str, Tensor]:
        """Return the mean over the experts of GCD's terms among each one's images, with their weight.

        The authors draw as many images again for the experts, the same number for each, half of them labelled. Here
        one batch serves both: it costs the tail nothing, and an expert meets its images as often as they come. One
        with fewer than two of them in the batch adds 0 (the losses see to it, and keep its head in the graph). The mean
        is over all experts all the same, so that the weight of one does not depend on which others are absent.
        """
        expert_b = self.expert_n[batch.image_b]
        terms = []
        for expert, head in enumerate(self.expert_heads):
            is_own_b = expert_b == expert
            z_vbd = head(batch.features_vbd[:, is_own_b])
            terms.append(gcd.contrast_terms(z_vbd, batch.labels_b[is_own_b], self.config))
        weight = self.config.fine_weight / self.config.n_experts
        return {f"fine_{name}": weight * torch.stack([term[name] for term in terms]).sum() for name in terms[0]}
