"""PromptCAL's memory of recent teacher features, and the contrast with related images in it (CAL)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from nngcd.clustering.semi_affinity import affinities, drawn, labelled_first
from nngcd.core.ranges import AtLeastOne, Positive, Share
from nngcd.losses.affinity_contrast import affinity_contrast
from nngcd.methods import gcd
from nngcd.methods.geometry import refuse_ball


@dataclass(frozen=True, kw_only=True, slots=True)
class AffinityConfig(gcd.Config):
    """Settings of contrastive affinity learning; defaults are those of PromptCAL for fine-grained data."""

    memory_size: AtLeastOne = 4096
    """Number of the most recent views that the memory holds."""
    n_neighbours: AtLeastOne = 5
    """Size of a neighbourhood; the paper uses 10 for CIFAR."""
    affinity_quantile: Share = 0.8
    """Quantile of the stronger connections; only pairs above it count as related. The paper uses 0.5 for CIFAR."""
    affinity_temperature: Positive = 0.07
    """Temperature of the contrast between related images."""
    n_compared: AtLeastOne = 1024
    """Views of the memory that each view is compared with: its positives, and others drawn at random."""
    affinity_form: Literal["printed", "code"] = "printed"
    """`printed`: each view is paired with the teacher's other view, and labels are applied before negatives are drawn.
    `code`: the class token is paired with the teacher's same view (prompts with the other one), and labels are applied
    after the draw."""

    def __post_init__(self) -> None:
        gcd.Config.__post_init__(self)
        refuse_ball(self, "PromptCAL compares with a memory of directions")


class AffinityMemory(nn.Module):
    """The newest features of a teacher, and their labels."""

    features_md: Tensor
    labels_m: Tensor

    def __init__(self, config: AffinityConfig, n_features: int) -> None:
        super().__init__()
        self.config = config
        # Part of a checkpoint: a resumed run cannot recover the teacher's earlier outputs otherwise.
        self.register_buffer("features_md", torch.zeros(0, n_features))
        self.register_buffer("labels_m", torch.zeros(0, dtype=torch.int64))

    def add(self, features_vbd: Tensor, labels_b: Tensor) -> None:
        """Remember all views of a batch, and forget the oldest ones."""
        size, n_views = self.config.memory_size, len(features_vbd)
        self.features_md = torch.cat([features_vbd.detach().flatten(0, 1), self.features_md])[:size]
        self.labels_m = torch.cat([labels_b.repeat(n_views), self.labels_m])[:size]

    def forget(self) -> None:
        """Forget everything after training: images are not part of a model."""
        self.features_md, self.labels_m = self.features_md[:0], self.labels_m[:0]

    def contrast(
        self, z_vbd: Tensor, teacher_vbd: Tensor, labels_b: Tensor, *, features: slice, generator: torch.Generator
    ) -> Tensor:
        """Return CAL: each view finds the teacher's and, in the memory, those it belongs with; 0 at first.

        Args:
            z_vbd: features of two views of each image, which learn.
            teacher_vbd: the teacher's features of the same views.
            labels_b: class of each image, -1 for unlabelled images.
            features: which of the remembered features these are; the first ones are the class token's.
            generator: draws the negatives.
        """
        memory_md, c = self.features_md[:, features], self.config
        if not len(memory_md):
            return z_vbd.sum() * 0
        # In the graph as well, the other view stands for a view.
        other_bd = teacher_vbd.flip(0).flatten(0, 1)
        near_nn = affinities(torch.cat([other_bd, memory_md]), n_neighbours=c.n_neighbours, share=c.affinity_quantile)
        near_bm = near_nn[: len(other_bd), len(other_bd) :]
        is_positive_bm = labelled_first(near_bm, labels_b.repeat(len(z_vbd)), self.labels_m)
        is_code = c.affinity_form == "code"
        chosen_bm = near_bm if is_code else is_positive_bm
        drawn_bm = drawn(~chosen_bm, c.n_compared - chosen_bm.sum(1), generator)
        return affinity_contrast(
            z_vbd.flatten(0, 1),
            teacher_vbd.flatten(0, 1) if is_code and not features.start else other_bd,
            memory_md,
            is_positive_bm=is_positive_bm,
            # The pairs that labels remove from the drawn ones are compared as well; the printed form removes none.
            is_negative_bm=(drawn_bm | chosen_bm) & ~is_positive_bm,
            temperature=c.affinity_temperature,
        )

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *others: Any) -> None:  # noqa: ANN401 (torch's)
        # As many as were saved: a new module does not know how full the memory is.
        for name in ("features_md", "labels_m"):
            if (saved := state.get(prefix + name)) is not None:
                setattr(self, name, getattr(self, name).new_empty(saved.shape))
        super()._load_from_state_dict(state, prefix, *others)
