"""DebGCD: SimGCD with a debiased classifier and a detector of new classes (Liu & Han, ICLR 2025).

"DebGCD: Debiased Learning with Distribution Guidance for Generalized Category Discovery". Two parts are added for
training. A second classifier learns from labels and from the hard pseudo-labels of the first. One detector per old
class learns whether an image belongs to it, and weights each pseudo-label by how sure it is that the image is old or
new. Both shape the features; SimGCD's own classifier gives the result, as in the authors' code.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from nngcd.core.ranges import NotNegative, Positive, Share
from nngcd.losses.cross_entropy import labelled_cross_entropy
from nngcd.losses.one_vs_all import certainty, detector_cross_entropy, detector_disagreement, detector_entropy
from nngcd.methods import simgcd
from nngcd.methods.contract import Batch, Moment, Task
from nngcd.methods.heads import ProjectionHead, Prototypes


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(simgcd.Config):
    """DebGCD's settings; defaults are those of its scripts for Stanford Cars."""

    confident_from: Share = 0.7
    """Probability from which the first classifier's pseudo-label teaches the second one; the authors use 0.55 to 0.9,
    by data set."""
    debiased_weight: NotNegative = 2.0
    """Weight of the second classifier's terms; the authors use 0.5 to 4."""
    debiased_unlabelled_share: Share = 0.5
    """Share of the pseudo-labels in the second classifier's terms."""
    detector_weight: NotNegative = 0.005
    """Weight of the detectors' terms; the authors use 0.001 to 0.01."""
    detector_entropy_weight: NotNegative = 0.1
    """Weight of the entropy of the detectors' answers for unlabelled images, relative to their other terms."""
    detector_temperature: Positive = 0.1
    """Temperature of the detectors."""


class Detectors(nn.Module):
    """One yes or no per old class, in a space of its own: a projection of five layers and two directions per class."""

    def __init__(self, config: Config, task: Task) -> None:
        super().__init__()
        n_out = config.n_projection or task.n_features
        self.projection = ProjectionHead(
            task.n_features, n_hidden=config.n_hidden, n_out=n_out, activation="identity", n_layers=5,
            generator=task.generator,
        )  # fmt: skip
        self.directions = Prototypes(n_out, 2 * task.n_old, generator=task.generator)

    def forward(self, features_vbd: Tensor) -> Tensor:
        """Return the logit of yes before the temperature: by how much yes is nearer than no, as cosines."""
        no_vbc, yes_vbc = self.directions(self.projection(features_vbd)).chunk(2, dim=-1)
        difference_vbc: Tensor = yes_vbc - no_vbc
        return difference_vbc


class Method(simgcd.Method):
    """DebGCD. SimGCD's loss, that of the detectors (SDL) and that of the debiased classifier (ADL)."""

    config: Config

    def __init__(self, config: Config, task: Task) -> None:
        super().__init__(config, task)
        self.debiased = self.new_prototypes(config.prototype_learning_rate)
        self.detectors = Detectors(config, task)

    def followers(self) -> list[Prototypes]:
        """Return the debiased classifier, so that its prototypes stand for the same clusters."""
        return [*super().followers(), self.debiased]

    def further_terms(self, batch: Batch, logits_vbk: Tensor) -> dict[str, Tensor]:
        """Return the weighted terms of detectors and debiased classifier.

        A term without images is 0, where the authors' code gives NaN.
        """
        c = self.config
        yes_vbc = self.detectors(batch.features_vbd) / c.detector_temperature
        unlabelled_vuc = yes_vbc[:, batch.labels_b < 0]
        of_detectors = {
            "detector_labels": detector_cross_entropy(yes_vbc, batch.labels_b),
            "detector_entropy": c.detector_entropy_weight * detector_entropy(unlabelled_vuc),
            "detector_views": detector_disagreement(unlabelled_vuc),
        }
        debiased_vbk, share = self.debiased(batch.features_vbd), c.debiased_unlabelled_share
        labelled = labelled_cross_entropy(debiased_vbk, batch.labels_b, temperature=c.student_temperature)
        of_debiased = {
            "debiased_labels": (1 - share) * labelled,
            "debiased_pseudo_labels": share * self._taught(debiased_vbk, logits_vbk, yes_vbc, batch.labels_b),
        }
        weights = {**dict.fromkeys(of_detectors, c.detector_weight), **dict.fromkeys(of_debiased, c.debiased_weight)}
        return {name: weights[name] * term for name, term in (of_detectors | of_debiased).items()}

    def _taught(self, debiased_vbk: Tensor, logits_vbk: Tensor, yes_vbc: Tensor, labels_b: Tensor) -> Tensor:
        """Return the cross-entropy with sure pseudo-labels of the same view, each weighted by the detectors' certainty.

        The mean runs over all unlabelled images; those whose pseudo-label is not sure count as 0.
        """
        c, is_free = self.config, labels_b < 0
        if not is_free.any():
            return debiased_vbk.sum() * 0
        p_vuk = (logits_vbk[:, is_free].detach() / c.student_temperature).softmax(-1)
        probability_vu, target_vu = p_vuk.max(-1)
        weight_vu = (probability_vu >= c.confident_from) * certainty(yes_vbc[:, is_free])
        logits_vuk = debiased_vbk[:, is_free] / c.student_temperature
        loss_a = F.cross_entropy(logits_vuk.flatten(0, 1), target_vu.flatten(), reduction="none")
        return (loss_a * weight_vu.flatten()).mean()

    def after_step(self, moment: Moment) -> None:
        """Restore the prototypes' length in both classifiers, if their learning rate is set."""
        super().after_step(moment)
        self.debiased.hold_length()
