"""CMS: contrast of embeddings moved towards their neighbours, then mean shift of all images (Choi et al., CVPR 2024).

"Contrastive Mean-Shift Learning for Generalized Category Discovery". In training every view moves half of the way to
the mean of its nearest neighbours in a memory of all images before views are contrasted. At the end the same shift is
repeated for all images until it no longer helps the labelled ones, and Ward's tree is cut. The head stays in use.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from nngcd.clustering.mean_shift import best_partition, numbered_by_class, shifts, ward_partition
from nngcd.core.ranges import AtLeastOne, Positive, ShareBelowOne, WholeNotNegative
from nngcd.core.seeds import torch_generator
from nngcd.losses.mean_shift import decoupled_contrast, shifted
from nngcd.losses.pairs import unit
from nngcd.losses.supcon import supcon
from nngcd.losses.weighting import weighted
from nngcd.methods import gcd
from nngcd.methods.centres import CentreMethod
from nngcd.methods.contract import Batch, Overview, Task

MOST_IN_TREE = 10_000
"""Images in Ward's tree, which needs 16 bytes for each pair. Of more images a random sample makes the tree, and all
join the nearest centre; the authors put all images into it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(gcd.ContrastConfig):
    """CMS's settings; defaults are those of its code for fine-grained data, save `left_out`."""

    n_directions: WholeNotNegative = 768
    """Number of learned directions, whose cosines with the projection are the embedding; 0 takes the projection."""
    contrastive_temperature: Positive = 0.25
    """Temperature of the unsupervised contrastive loss; the authors use 0.3 on generic data."""
    n_neighbours: AtLeastOne = 8
    """Number of nearest neighbours whose mean an embedding moves towards."""
    step: ShareBelowOne = 0.5
    """Share of the way to that mean that an embedding moves."""
    left_out: Literal["own", "nearest"] = "own"
    """Entry of the memory that never counts as a neighbour of a view: that of its own image; or the nearest one,
    whatever it is (authors' code)."""
    n_rounds: AtLeastOne = 20
    """Most rounds of mean shift at the end."""
    temperature: Positive = 0.1
    """Temperature that turns distances into probabilities; changes confidences, never an assignment."""


class Method(CentreMethod):
    """CMS. Its centres are in the space of the head's output."""

    config: Config
    memory_nd: Tensor

    def __init__(self, config: Config, task: Task) -> None:
        # The centres have the size of the head's output; the features are still those of the task.
        super().__init__(config, replace(task, n_features=config.n_directions or config.n_projection))
        self.task = task
        self.head = gcd.ContrastHead(config, task)
        # Not saved: a resumed epoch embeds the images again.
        self.register_buffer("memory_nd", torch.zeros(0, 0), persistent=False)

    def looks_before(self, epoch: int, n_epochs: int) -> bool:
        """Return True: every epoch has a new memory."""
        return True

    @torch.no_grad()
    def look(self, overview: Overview) -> None:
        """Keep the embeddings of all images. The authors keep those of two random views of each, we of the centre."""
        self.memory_nd = unit(self.head(overview.features_nd))

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the contrast of shifted embeddings and that of labelled images."""
        c, z_vbd = self.config, unit(self.head(batch.features_vbd))
        moved_vbd = shifted(z_vbd, self.neighbour_means(z_vbd, batch.image_b), step=c.step)
        contrast = decoupled_contrast(moved_vbd, temperature=c.contrastive_temperature)
        labelled = supcon(z_vbd, batch.labels_b, temperature=c.supcon_temperature)
        return weighted({"contrast": contrast}, {"supcon": labelled}, c.supervised_weight)

    @torch.no_grad()
    def neighbour_means(self, z_vbd: Tensor, image_b: Tensor) -> Tensor:
        """Return the mean of the entries of the memory nearest to each view."""
        c, n = self.config, len(self.memory_nd)
        m = min(c.n_neighbours, n - 1)
        if m < 1:
            return z_vbd.detach()
        cosine_vbn = z_vbd @ self.memory_nd.T
        if c.left_out == "own":
            cosine_vbn[:, torch.arange(len(image_b), device=image_b.device), image_b] = -torch.inf
        n_left_out = int(c.left_out == "nearest")
        nearest_vbm = cosine_vbn.topk(m + n_left_out, dim=-1).indices[..., n_left_out:]
        return self.memory_nd[nearest_vbm].mean(2)

    @torch.no_grad()
    def settle(self, overview: Overview) -> Tensor:
        """Return the clusters of mean shift and Ward's tree; further images will join the nearest centre.

        With an estimated K, the number of clusters is the one in the estimate's range that matches the labelled images
        best, and of equally good ones that nearest to the estimate. The authors choose it by labels of test images.
        """
        c, device = self.config, overview.features_nd.device
        z_nd = unit(self.head(overview.features_nd))
        self.memory_nd = self.memory_nd[:0]
        generator = torch_generator(overview.seed, "ward")
        in_tree = torch.randperm(len(z_nd), generator=generator)[:MOST_IN_TREE].sort().values.to(device)
        labels_m = overview.labels_n.cpu().numpy()[in_tree.cpu().numpy()]
        numbers = self._numbers(len(in_tree))
        found = best_partition(
            (ward_partition(x_nd[in_tree], labels_m, numbers)
             for x_nd in shifts(z_nd, n_neighbours=c.n_neighbours, step=c.step)),
            most=c.n_rounds,
        )  # fmt: skip
        cluster_m = torch.from_numpy(numbered_by_class(found.cluster_n, labels_m)).to(device)
        size_k = cluster_m.bincount()
        sum_kd = z_nd.new_zeros(len(size_k), z_nd.shape[1]).index_add_(0, cluster_m, z_nd[in_tree])
        self.centres_kd = sum_kd / size_k.clamp_min(1)[:, None]
        return cluster_m if len(in_tree) == len(z_nd) else super().assign(z_nd).argmax(-1)

    def _numbers(self, n_images: int) -> list[int]:
        """Return the numbers of clusters to try, those nearest to the estimate first."""
        k, (least, most) = self.task.n_clusters, self.task.k_range or (self.task.n_clusters,) * 2
        numbers = [k] if least == most else range(max(least, self.task.n_old, 1), min(most, n_images) + 1)
        return sorted(numbers, key=lambda number: abs(number - k))

    def assign(self, features_nd: Tensor) -> Tensor:
        """Return scores whose arg max is the nearest centre among the embeddings."""
        return super().assign(self.head(features_nd))
