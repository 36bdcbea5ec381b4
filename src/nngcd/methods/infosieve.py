"""InfoSieve: contrast by distance, pseudo-labels of equal size, and a short code (Rastegar et al., NeurIPS 2023).

"Learn to Categorize or Categorize to Learn? Self-Coding for Generalized Category Discovery". Terms, weights and
schedules follow the authors' code, also where the paper is unclear. docs/paper/methods.md lists our departures.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from nngcd.core.ranges import AtLeastOne, NotNegative, Positive
from nngcd.losses.code import category_cross_entropy, code_condition, code_length, mask_condition
from nngcd.losses.info_nce import info_nce
from nngcd.losses.pairs import Similarity, closeness, relative_closeness, unit
from nngcd.losses.supcon import supcon
from nngcd.methods import gcd
from nngcd.methods.contract import Batch, Overview, Task
from nngcd.methods.equal_sizes import EqualSizesConfig, EqualSizesMethod
from nngcd.methods.geometry import refuse_ball
from nngcd.methods.heads import CodeHead, Codes


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(EqualSizesConfig):
    """InfoSieve's settings; defaults are those of its code, but for `sampling`, `code_shares` and `length_weight`."""

    keep_centres: bool = False
    """Whether each epoch's k-means has one start, from the previous epoch's centres; faster than the authors' way."""
    n_digits: AtLeastOne = 40
    """Length of the code."""
    final_age: Positive = 20.0
    """Sharpness of the code's digits in the last epoch; it grows during training."""
    code_shares: Literal["own", "other"] = "own"
    """Normalisation of distances of codes: by all distances of the view itself, or of the one it is compared with."""
    code_weight: NotNegative = 1.0
    """Weight of the contrast between codes."""
    code_condition_weight: NotNegative = 0.01
    """Weight of the term that makes digits -1 or 1, in equal parts (zeta in the code)."""
    mask_condition_weight: NotNegative = 0.01
    """Weight of the term that makes masks 0 or 1 (mu)."""
    category_weight: NotNegative = 0.01
    """Weight of predicting the labelled classes from the masked code (eta)."""
    length_weight: NotNegative = 0.1
    """Weight of the masked code's length (delta), as a mean over the batch; the authors' code sums it (25.6)."""

    def __post_init__(self) -> None:
        EqualSizesConfig.__post_init__(self)
        refuse_ball(self, "InfoSieve has distances of its own")


class Method(EqualSizesMethod):
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
        """Return True: every epoch has new pseudo-labels."""
        return True

    @torch.no_grad()
    def look(self, overview: Overview) -> None:
        """Give every image its cluster as pseudo-label; labelled images keep their own label."""
        # The centres are part of a checkpoint, so that a resumed run also continues from them.
        kept_kd = self.centres_kd if self.config.keep_centres and overview.epoch else None
        self.pseudo_label_n = self.cluster(overview, self.config.epoch_starts, kept_kd)

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

    def _contrast(self, x_vbd: Tensor, y_vbd: Tensor, batch: Batch, similarity: Similarity) -> tuple[Tensor, Tensor]:
        """Return the weighted contrast of x without labels, and that of y by labels and by pseudo-labels."""
        c, share = self.config, self.config.supervised_weight
        alone = info_nce(x_vbd, temperature=c.contrastive_temperature, smoothing=c.smoothing, similarity=similarity)
        labels_pb = torch.stack([batch.labels_b, self.pseudo_label_n[batch.image_b]])
        pairs_p = torch.stack([supcon(y_vbd, labels_b, temperature=c.supcon_temperature, similarity=similarity)
                               for labels_b in labels_pb])  # fmt: skip
        return (1 - share) * alone, share * pairs_p.mean()
