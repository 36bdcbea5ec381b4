"""CiPR: contrast between images grouped by a neighbour hierarchy (Hao, Han and Wong, TMLR 2024)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.clustering import snc
from nngcd.clustering.neighbour_links import Rule
from nngcd.core.ranges import NotNegative, Positive, WholeNotNegative
from nngcd.losses.info_nce import info_nce
from nngcd.losses.supcon import supcon
from nngcd.methods.centres import CentreMethod
from nngcd.methods.contract import Batch, Overview, Task
from nngcd.methods.gcd import ContrastHead, HeadConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(HeadConfig):
    """CiPR's settings; defaults are those of the authors' code."""

    supcon_temperature: Positive = 0.07
    """Temperature of the contrast between labelled images."""
    cross_temperature: Positive = 0.12
    """Temperature of the contrast between images of one group."""
    cross_weight: NotNegative = 0.12 / 0.07
    """Weight of the contrast between images of one group. The authors' code uses the ratio of the two temperatures, the
    paper 1."""
    grouping: Rule = "published"
    """The way the hierarchy links images: `published`, as in the authors' code, where groups depend on the order of the
    images; or `unordered`, where they do not."""
    level: WholeNotNegative = 1
    """Level of the hierarchy whose groups are used, 0 being the finest."""
    warmup_epochs: WholeNotNegative = 0
    """Epochs before groups are used, in which only views of the same image attract each other."""
    warmup_temperature: Positive = 1.0
    """Temperature of the contrast in the warm-up epochs."""
    temperature: Positive = 0.1
    """Temperature that turns distances into probabilities; changes confidences, never an assignment."""


class Method(CentreMethod):
    """CiPR. All images are regrouped every epoch; images of one group, labelled or not, attract each other."""

    config: Config
    group_n: Tensor

    def __init__(self, config: Config, task: Task) -> None:
        super().__init__(config, task)
        self.head = ContrastHead(config, task)
        # Not saved: a resumed epoch groups the images again, from the same features.
        self.register_buffer("group_n", torch.zeros(0, dtype=torch.int64), persistent=False)

    def looks_before(self, epoch: int, n_epochs: int) -> bool:
        """Whether this epoch needs groups: every epoch after the warm-up does."""
        return epoch >= self.config.warmup_epochs

    def look(self, overview: Overview) -> None:
        """Group all images: one level of the hierarchy."""
        partitions = snc.partitions(overview.features_nd, overview.labels_n, rule=self.config.grouping)
        group_n = partitions[min(self.config.level, len(partitions) - 1)]
        self.group_n = torch.from_numpy(group_n).to(overview.features_nd.device)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the contrast of labelled images, with weight 1, and that of groups or, in the warm-up, of views."""
        c, z_vbd = self.config, self.head(batch.features_vbd)
        if batch.moment.epoch < c.warmup_epochs:
            cross = info_nce(z_vbd, temperature=c.warmup_temperature)
        else:
            cross = c.cross_weight * supcon(z_vbd, self.group_n[batch.image_b], temperature=c.cross_temperature)
        labelled = supcon(z_vbd, batch.labels_b, temperature=c.supcon_temperature)
        return {"cross": cross, "supcon": labelled}

    @torch.no_grad()
    def settle(self, overview: Overview) -> Tensor:
        """Return the clusters of the hierarchy cut at K; further images will join the nearest centre."""
        k, rule = self.task.n_clusters, self.config.grouping
        found_n = snc.cluster(overview.features_nd, overview.labels_n, k, rule=rule)
        cluster_n = torch.from_numpy(found_n).to(overview.features_nd.device)
        unit_nd = F.normalize(overview.features_nd, dim=-1)
        size_k = cluster_n.bincount(minlength=k)
        self.centres_kd.zero_().index_add_(0, cluster_n, unit_nd).div_(size_k.clamp_min(1)[:, None])
        return cluster_n
