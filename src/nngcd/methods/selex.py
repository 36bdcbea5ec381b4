"""SelEx: pseudo-labels at several granularities, and soft targets that spare near images (Rastegar et al., ECCV 2024).

"SelEx: Self-Expertise in Fine-Grained Generalized Category Discovery". Before each epoch all images are clustered, and
the clusters grouped into ever fewer ones. Images attract each other by their clusters of each level (supervised
self-expertise). The contrast without labels moves its target from the other view to images farther away than the next
cluster (unsupervised self-expertise). All departures: docs/paper/methods.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from nngcd.clustering.kmeans import KMeans
from nngcd.core.ranges import AtLeastOne
from nngcd.losses.info_nce import info_nce
from nngcd.losses.pairs import unit
from nngcd.losses.self_expertise import farther_than_own_cluster, radii
from nngcd.losses.supcon import supcon
from nngcd.losses.weighting import weighted
from nngcd.methods import gcd
from nngcd.methods.contract import Batch, Overview, Task
from nngcd.methods.equal_sizes import EqualSizesConfig, EqualSizesMethod
from nngcd.methods.geometry import Contrast, PointGeometry


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(EqualSizesConfig):
    """SelEx's settings; defaults are those of its code, without the mistakes that `spread` and the next two name."""

    epoch_starts: AtLeastOne = 1
    """Starts of semi-supervised k-means before each epoch, at each level; the one with the least inertia is kept."""
    spread: Literal["own", "other"] = "own"
    """Whether a soft target is divided by the sum of its own weights, or by that of the view it points to (authors'
    code, where targets need not sum to 1)."""
    distances_of: Literal["unit", "raw"] = "unit"
    """Features whose distances are compared with those of cluster centres, which are means of features of length 1:
    also of length 1, or as they are (authors' code, where nearly all pairs then count as far apart)."""
    coarse_labels: Literal["right", "shifted"] = "right"
    """Cluster of an image at the coarser levels: its own (right); or, for most images, that of another one (shifted),
    as in the authors' code, which lists images of old clusters first and then reads them in the order of the data."""


class Method(EqualSizesMethod):
    """SelEx. Images of one cluster attract each other at every level; k-means gives the categories."""

    config: Config
    pseudo_label_ln: Tensor
    radius_ln: Tensor
    """The radius of each image's cluster, at each level."""

    def __init__(self, config: Config, task: Task) -> None:
        super().__init__(config, task)
        self.head, self.geometry = gcd.ContrastHead(config, task), PointGeometry(config)
        # Not saved: a resumed epoch clusters the images again, from the same features.
        self.register_buffer("pseudo_label_ln", torch.zeros(0, 0, dtype=torch.int64), persistent=False)
        self.register_buffer("radius_ln", torch.zeros(0, 0), persistent=False)

    def looks_before(self, epoch: int, n_epochs: int) -> bool:
        """Return True: every epoch has new pseudo-labels."""
        return True

    @torch.no_grad()
    def look(self, overview: Overview) -> None:
        """Give every image its cluster at each level."""
        levels = list(self._levels(overview))
        self.pseudo_label_ln = torch.stack([cluster_n for cluster_n, _ in levels])
        self.radius_ln = torch.stack([radii(centres_kd)[cluster_n] for cluster_n, centres_kd in levels])

    def _levels(self, overview: Overview) -> Iterator[tuple[Tensor, Tensor]]:
        """Give clusters and centres of each level: the finest, then those that group the clusters of old classes.

        Old clusters are grouped by k-means of their centres, and their images stay in their group; all others are
        clustered anew.
        """
        fine_n, n_old = self.cluster(overview, self.config.epoch_starts), self.task.n_old
        yield fine_n, self.centres_kd.clone()
        is_in_old_n = fine_n < n_old
        for n_groups, n_new in level_sizes(n_old, self.task.n_clusters - n_old)[1:]:
            group_c = KMeans(n_groups, random_state=overview.seed).fit(self.centres_kd[:n_old]).labels_
            group_n = torch.where(is_in_old_n, group_c[fine_n.clamp(max=n_old - 1)], -1)
            cluster_n, centres_kd = self.clusters(
                overview._replace(labels_n=group_n), n_groups + n_new, init="published",
                n_starts=self.config.epoch_starts,
            )  # fmt: skip
            if self.config.coarse_labels == "shifted":
                cluster_n = shifted_labels(cluster_n, overview.labels_n.to(cluster_n.device), is_in_old_n)
            yield cluster_n, centres_kd

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the contrast with soft targets, that of labelled images, and that of the clusters of each level."""
        c, space = self.config, self.geometry.at(batch.moment)
        z_vbd = self.geometry.points(self.head(batch.features_vbd))
        features_vbd = batch.features_vbd.detach()
        spread_vbwc = farther_than_own_cluster(
            unit(features_vbd) if c.distances_of == "unit" else features_vbd,
            self.radius_ln[:, batch.image_b],
            shares=c.spread,
        )
        every = partial(info_nce, z_vbd, smoothing=c.smoothing, spread_vbwc=spread_vbwc)
        contrast = space(every, c.contrastive_temperature)
        labelled = space(partial(supcon, z_vbd, batch.labels_b), c.supcon_temperature)
        of_levels = self._level_contrast(z_vbd, batch.image_b, space)
        return weighted({"contrast": contrast}, {"supcon": labelled / 2, "levels": of_levels / 2}, c.supervised_weight)

    def _level_contrast(self, z_vbd: Tensor, image_b: Tensor, space: Contrast) -> Tensor:
        """Return the contrast by clusters: each level counts, and sees of z, half as much as the one before.

        The finest counts half and sees the first half. What is seen is not brought to length 1 again.
        """
        terms = []
        for level, label_n in enumerate(self.pseudo_label_ln, start=1):
            seen_vbd = z_vbd[..., : max(z_vbd.shape[-1] // 2**level, 1)]
            contrast = space(partial(supcon, seen_vbd, label_n[image_b]), self.config.supcon_temperature)
            terms.append(contrast / 2**level)
        return torch.stack(terms).sum()


def level_sizes(n_old: int, n_new: int) -> list[tuple[int, int]]:
    """Return the numbers of old and of new clusters at each level: halved until one old cluster is left."""
    sizes = [(n_old, n_new)]
    while n_old > 1:
        # Without new clusters there are no images for one; the authors' code then has one from the second level on.
        n_old, n_new = n_old // 2, max(n_new // 2, min(n_new, 1))
        sizes.append((n_old, n_new))
    return sizes


def shifted_labels(label_n: Tensor, labels_n: Tensor, is_in_old_n: Tensor) -> Tensor:
    """Return the labels as the authors' code reads them.

    Its data have the labelled images first. The labels come back with the images of old clusters first; these
    places are taken for those in the data, so that only the labelled images have their own.
    """
    data_n = (labels_n < 0).to(torch.int8).argsort(stable=True)
    listed_n = data_n[(~is_in_old_n[data_n]).to(torch.int8).argsort(stable=True)]
    return torch.empty_like(label_n).index_copy_(0, data_n, label_n[listed_n])
