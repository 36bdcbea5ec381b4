"""CiPR: contrast between images that a neighbour hierarchy puts together (Hao, Han and Wong, TMLR 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.clustering import snc
from nngcd.clustering.neighbour_links import Rule
from nngcd.core.ranges import check_not_negative, check_positive
from nngcd.losses.info_nce import info_nce
from nngcd.losses.supcon import supcon
from nngcd.methods.centres import CentreMethod
from nngcd.methods.contract import Batch, Overview, Task
from nngcd.methods.gcd import ContrastHead, HeadConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(HeadConfig):
    """CiPR's settings; defaults are those of the authors' code."""

    before: ClassVar[dict[str, Any]] = {"cross_weight": 1.0, "grouping": "unordered"}
    supcon_temperature: float = 0.07
    """Temperature of the contrast between labelled images."""
    cross_temperature: float = 0.12
    """Temperature of the contrast between images of one group."""
    cross_weight: float = 0.12 / 0.07
    """Weight of the contrast between images of one group: in the authors' code its temperature over the other one's, in
    the paper 1."""
    grouping: Rule = "published"
    """How the hierarchy links images: `published` as in the authors' code, whose groups depend on the order of the
    images, or `unordered`, whose groups do not."""
    level: int = 1
    """Level of the hierarchy whose groups are used, 0 being the finest."""
    warmup_epochs: int = 0
    """Epochs in which only views of the same image attract each other, before groups are believed."""
    warmup_temperature: float = 1.0
    """Temperature of the contrast in those epochs."""
    temperature: float = 0.1
    """Turns distances into probabilities; it changes confidences, never an assignment."""

    def __post_init__(self) -> None:
        HeadConfig.__post_init__(self)
        check_positive(self, "supcon_temperature", "cross_temperature", "warmup_temperature", "temperature")
        check_not_negative(self, "level", "warmup_epochs", "cross_weight")


class Method(CentreMethod):
    """CiPR. Every epoch all images are grouped anew; images of one group, labelled or not, attract each other."""

    config: Config
    group_n: Tensor

    def __init__(self, config: Config, task: Task) -> None:
        super().__init__(config, task)
        self.head = ContrastHead(config, task)
        # Not saved: a resumed epoch groups the images again, from the same features.
        self.register_buffer("group_n", torch.zeros(0, dtype=torch.int64), persistent=False)

    def looks_before(self, epoch: int, n_epochs: int) -> bool:
        """Whether groups are wanted: in every epoch after the warm-up."""
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
