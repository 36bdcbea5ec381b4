"""LegoGCD: SimGCD with two regularisers that keep it from forgetting old classes (Cao et al., CVPR 2024).

"Solving the Catastrophic Forgetting Problem in Generalized Category Discovery". Local entropy regularisation (LER)
sharpens the predictions of unlabelled images that are taken for an old class with confidence, with a margin from the
mean prediction. The divergence between the two views of an image (DKL) makes such picks reliable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from nngcd.clustering.split_and_merge import Moved
from nngcd.core.ranges import NotNegative, Positive, Share
from nngcd.methods import simgcd
from nngcd.methods.contract import Batch, Moment, Task


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(simgcd.Config):
    """LegoGCD's settings; defaults are those of its code, save `divergence`."""

    confident_from: Share = 0.85
    """Probability from which an unlabelled image is taken for an old class; the authors use 0.7 to 0.95, by data
    set."""
    local_entropy_weight: NotNegative = 2.0
    """Weight of the entropy of the images that are taken for an old class (LER)."""
    local_entropy_temperature: Positive = 0.05
    """Temperature of the predictions of these images."""
    margin: NotNegative = 0.4
    """Factor on the logarithm of the mean prediction, which is added to the logits of these images."""
    mean_momentum: Share = 0.999
    """Momentum of the mean prediction, in each step."""
    mean_temperature: Positive = 1.0
    """Temperature of the mean prediction. At 1 (authors' code) it is nearly equal for all classes, so the margin hardly
    matters."""
    divergence_weight: NotNegative = 1.0
    """Weight of the divergence between views (DKL), relative to the term of the pseudo-labels."""
    divergence: Literal["symmetric", "code"] = "symmetric"
    """Divergence between views: the mean of both Kullback-Leibler divergences; or as in the authors' code, which
    applies softmax twice and takes one direction only."""


class Method(simgcd.Method):
    """LegoGCD. SimGCD's loss, the divergence between views, and the entropy of confident old images."""

    config: Config
    mean_prediction_k: Tensor

    def __init__(self, config: Config, task: Task) -> None:
        super().__init__(config, task)
        mean_prediction_k = torch.full((len(self.prototypes.weight),), 1 / task.n_clusters)
        self.register_buffer("mean_prediction_k", mean_prediction_k, persistent=False)
        self.remembers = (*self.remembers, "mean_prediction_k")
        self._next_mean_prediction_k: Tensor | None = None

    def pseudo_label_terms(self, batch: Batch, logits_vbk: Tensor) -> dict[str, Tensor]:
        """Return SimGCD's terms and the divergence between views."""
        c = self.config
        divergence = view_divergence(logits_vbk / c.student_temperature, form=c.divergence)
        return super().pseudo_label_terms(batch, logits_vbk) | {"divergence": c.divergence_weight * divergence}

    def further_terms(self, batch: Batch, logits_vbk: Tensor) -> dict[str, Tensor]:
        """Return the entropy of confident old images (LER).

        The paper prints a minus before it; the code, and we, minimise the entropy. The mean runs over all views, and
        those that are not picked count as 0.
        """
        c, mean_k = self.config, self.mean_prediction_k[: logits_vbk.shape[-1]]
        is_picked_vb = confident_old(
            logits_vbk.detach() / c.student_temperature, batch.labels_b, n_old=self.task.n_old, least=c.confident_from
        )
        sharp_vbk = logits_vbk / c.local_entropy_temperature
        entropy_vb = -(sharp_vbk.softmax(-1) * (sharp_vbk + c.margin * mean_k.log()).log_softmax(-1)).sum(-1)
        # Stored only after the step: a batch that does not fit into memory is tried again.
        batch_mean_k = (logits_vbk.detach() / c.mean_temperature).softmax(-1).mean((0, 1))
        self._next_mean_prediction_k = torch.lerp(batch_mean_k, mean_k, c.mean_momentum)
        return {"local_entropy": c.local_entropy_weight * (entropy_vb * is_picked_vb).mean()}

    def turn_to_means(self, moved: Moved, unit_nd: Tensor) -> None:
        """Turn the prototypes; the mean prediction of a cluster that has changed starts again."""
        super().turn_to_means(moved, unit_nd)
        self.mean_prediction_k[moved.cluster_m] = 1 / moved.n_clusters

    def after_step(self, moment: Moment) -> None:
        """Store the mean prediction."""
        super().after_step(moment)
        if self._next_mean_prediction_k is not None:
            self.mean_prediction_k[: len(self._next_mean_prediction_k)] = self._next_mean_prediction_k
            self._next_mean_prediction_k = None


def confident_old(logits_vbk: Tensor, labels_b: Tensor, *, n_old: int, least: float) -> Tensor:
    """Return is_picked_vb: views of unlabelled images taken for an old class with at least this probability."""
    probability_vb, cluster_vb = logits_vbk.softmax(-1).max(-1)
    return (labels_b < 0) & (probability_vb >= least) & (cluster_vb < n_old)


def view_divergence(logits_vbk: Tensor, *, form: Literal["symmetric", "code"] = "symmetric") -> Tensor:
    """Return the mean divergence between the predictions of two views of an image; both get a gradient.

    Args:
        logits_vbk: logits over the temperature.
        form: `symmetric` is the mean of KL(p_v, p_w) over all ordered pairs of different views. `code` is LegoGCD's:
            each view against later ones only, and the logarithm of a softmax of the probabilities p themselves.
    """
    p_vbk = logits_vbk.softmax(-1)
    logp_vbk = (p_vbk if form == "code" else logits_vbk).log_softmax(-1)
    cross_vw = torch.einsum("vbk,wbk->vw", p_vbk, logp_vbk) / max(p_vbk.shape[1], 1)
    divergence_vw = cross_vw.diagonal()[:, None] - cross_vw
    is_pair_vw = torch.ones_like(divergence_vw, dtype=torch.bool).triu(1)
    return divergence_vw[is_pair_vw if form == "code" else is_pair_vw | is_pair_vw.T].mean()
