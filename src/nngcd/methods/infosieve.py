"""InfoSieve: contrast by distance, pseudo-labels of equal size, and a short code (Rastegar et al., NeurIPS 2023).

"Learn to Categorize or Categorize to Learn? Self-Coding for Generalized Category Discovery". Terms, weights and
schedules are those of the authors' code, which settles what its paper leaves open. Where ours departs
is in docs/paper.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from nngcd.core.ranges import check_at_least_one, check_not_negative, check_positive, check_share
from nngcd.heads import CodeHead, Codes
from nngcd.losses.code import category_cross_entropy, code_condition, code_length, mask_condition
from nngcd.losses.info_nce import info_nce
from nngcd.losses.pairs import Similarity, closeness, relative_closeness, unit
from nngcd.losses.supcon import supcon
from nngcd.methods import gcd
from nngcd.methods.batches import Batches, Labels, batches_by_share
from nngcd.methods.centres import CentreMethod, semi_supervised_clusters
from nngcd.methods.contract import Batch, Overview, Task


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(gcd.Config):
    """InfoSieve's settings; defaults are those of its code, but for `sampling`, `code_shares` and `length_weight`."""

    n_starts: int = 10
    """Starts of semi-supervised k-means at the end; the one with the least inertia is kept."""
    epoch_starts: int = 10
    """The same before each epoch, where it makes the pseudo-labels."""
    keep_centres: bool = False
    """Whether it starts from the centres of the epoch before, once, instead: less work than the authors' new starts."""
    n_iterations: int = 10
    """Moves of a start's centres, at most."""
    unbalanced: bool = False
    """Whether categories may differ in size; if not, none gets more than its equal share of the images."""
    sampling: Literal["balanced", "share"] = "balanced"
    """How batches are drawn: half labelled, or an unlabelled image with the labelled share of all as its weight, as in
    the authors' code (57 % labelled on CUB)."""
    smoothing: float = 0.5
    """Share of the unsupervised contrast's target that is spread over all views, in [0, 1]: 1 on CUB, 0.5 on other
    fine-grained and 0.1 on generic data. At 1 the two views of an image no longer attract each other."""
    n_digits: int = 40
    """Length of the code."""
    final_age: float = 20.0
    """Sharpness of the code's digits in the last epoch; it grows with the epochs done."""
    code_shares: Literal["own", "other"] = "own"
    """Of whose distances a distance of codes is a share: the view's own, or those of the view it is compared with."""
    code_weight: float = 1.0
    """Weight of the contrast between codes."""
    code_condition_weight: float = 0.01
    """Weight of the term that makes digits -1 or 1, in equal parts (zeta in the code)."""
    mask_condition_weight: float = 0.01
    """Weight of the term that makes masks 0 or 1 (mu)."""
    category_weight: float = 0.01
    """Weight of the labelled classes told from the masked code (eta)."""
    length_weight: float = 0.1
    """Weight of the length that masks leave (delta), as a mean over the batch; the authors' is of the sum: 25.6."""

    def __post_init__(self) -> None:
        gcd.Config.__post_init__(self)
        check_at_least_one(self, "epoch_starts", "n_iterations", "n_digits")
        check_share(self, "smoothing")
        check_positive(self, "final_age")
        weights = "code_weight", "code_condition_weight", "mask_condition_weight", "category_weight", "length_weight"
        check_not_negative(self, *weights)


class Method(CentreMethod):
    """InfoSieve. Images of one pseudo-label attract each other, and so do their codes; k-means gives the categories."""

    config: Config
    pseudo_label_n: Tensor

    def __init__(self, config: Config, task: Task) -> None:
        super().__init__(config, task)
        self.head = gcd.ContrastHead(config, task)
        n_contrasted = config.n_directions or config.n_projection
        self.coder = CodeHead(n_contrasted, max(task.n_old, 1), n_digits=config.n_digits, generator=task.generator)
        # Not saved: a resumed epoch clusters the images again, from the same features.
        self.register_buffer("pseudo_label_n", torch.zeros(0, dtype=torch.int64), persistent=False)

    def looks_before(self, epoch: int, n_epochs: int) -> bool:
        """Return True: pseudo-labels are new in every epoch."""
        return True

    @torch.no_grad()
    def look(self, overview: Overview) -> None:
        """Give every image the cluster it is in as its label; labelled images keep their own."""
        # The centres are part of a checkpoint, so that a resumed run goes on from them, too.
        kept_kd = self.centres_kd if self.config.keep_centres and overview.epoch else None
        self.pseudo_label_n = self._cluster(overview, self.config.epoch_starts, kept_kd)

    def draw(self, labels: Labels, batch_size: int, generator: torch.Generator, *, drop_last: bool = True) -> Batches:
        """Return the images of each batch of an epoch, drawn as `sampling` says."""
        drawn = batches_by_share if self.config.sampling == "share" else super().draw
        return drawn(labels, batch_size, generator, drop_last=drop_last)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the contrasts of projections and of codes, and the four terms of the code."""
        c, moment = self.config, batch.moment
        z_vbd = unit(self.head(batch.features_vbd))
        age = c.final_age * (moment.epoch + 1) / moment.n_epochs
        codes: Codes = self.coder(z_vbd, age=age, base=2 - moment.epoch / moment.n_epochs)
        contrast, labelled = self._contrast(z_vbd, z_vbd, batch, closeness)
        # Without labels the digits count alike and at length 1, with labels by their place, as in the authors' code.
        relative = partial(relative_closeness, of=c.code_shares)
        code_contrast, code_labelled = self._contrast(unit(codes.raw_vbl), codes.weighted_vbl, batch, relative)
        return {
            "contrast": contrast,
            "supcon": labelled,
            "code_contrast": c.code_weight * code_contrast,
            "code_supcon": c.code_weight * code_labelled,
            "code_condition": c.code_condition_weight * code_condition(codes.raw_vbl),
            "mask_condition": c.mask_condition_weight * mask_condition(codes.mask_vbl),
            "category": c.category_weight * category_cross_entropy(codes.category_vbk, batch.labels_b),
            "length": c.length_weight * code_length(codes.mask_vbl),
        }

    @torch.no_grad()
    def settle(self, overview: Overview) -> Tensor | None:
        """Find the centres; return the clusters of equal size, which the nearest centre alone does not give."""
        cluster_n = self._cluster(overview, self.config.n_starts)
        return None if self.config.unbalanced else cluster_n

    def _contrast(self, x_vbd: Tensor, y_vbd: Tensor, batch: Batch, similarity: Similarity) -> tuple[Tensor, Tensor]:
        """Return the weighted contrast of x without labels, and that of y by labels and by pseudo-labels."""
        c, share = self.config, self.config.supervised_weight
        alone = info_nce(x_vbd, temperature=c.contrastive_temperature, smoothing=c.smoothing, similarity=similarity)
        labels_pb = torch.stack([batch.labels_b, self.pseudo_label_n[batch.image_b]])
        pairs_p = torch.stack([supcon(y_vbd, labels_b, temperature=c.supcon_temperature, similarity=similarity)
                               for labels_b in labels_pb])  # fmt: skip
        return (1 - share) * alone, share * pairs_p.mean()

    def _cluster(self, overview: Overview, n_starts: int, start_kd: Tensor | None = None) -> Tensor:
        """Return cluster_n of semi-supervised k-means, and keep its centres."""
        c, equal_share = self.config, -(-len(overview.labels_n) // self.task.n_clusters)
        cluster_n, centres_kd = semi_supervised_clusters(
            overview, self.task.n_clusters, init=c.cluster_start if start_kd is None else start_kd, n_init=n_starts,
            max_iter=c.n_iterations, size_limit=None if c.unbalanced else equal_share,
        )  # fmt: skip
        self.centres_kd.copy_(centres_kd)
        return cluster_n
