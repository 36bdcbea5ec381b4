"""EAGC: gradients of unlabelled images are kept from disturbing what labelled images have taught (plug-in).

Zheng et al., CVPR 2026. It takes any method as it is, because it works between the method's loss and the network's
trained part: on the features that the one reads and the other gives, and on their gradient on its way back.

1. A reference network learns from the labels alone; training starts from it, and a frozen copy stays.
2. Anchor: features of labelled images are held near those of the reference.
3. Projection: of the gradient of an unlabelled image's feature, the part within the subspace of the known classes is
   reduced, the more so the less of the feature itself lies there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from nngcd.core import processes
from nngcd.core.errors import ConfigError
from nngcd.core.progress import Progress
from nngcd.core.ranges import AtLeastOne, Checked, NotNegative, Positive
from nngcd.core.seeds import torch_generator
from nngcd.losses.cross_entropy import labelled_cross_entropy
from nngcd.methods.contract import BaseMethod, Batch, Overview, Task
from nngcd.methods.heads import Prototypes
from nngcd.training.learner import Learner
from nngcd.training.loop import TrainingSettings, train
from nngcd.training.model import Model
from nngcd.training.sources import BatchSource
from nngcd.views.loading import batches_of

if TYPE_CHECKING:
    from lightning_fabric import Fabric

MEMORY = 0.95
"""Share of earlier batches in the mean energy of labelled images."""
WEIGHT_DECAY = 1e-4
"""Of the reference."""
TEMPERATURE = 0.1
"""Of the reference's classifier."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EagcSettings(Checked):
    """Settings of EAGC; the defaults are those of its scripts, with `rescale` and `capped` added."""

    group = "eagc."
    active: bool = False
    """Whether to protect what labelled images teach from the gradients of unlabelled ones (EAGC). It works with
    every method that is trained, except SPTNet and PromptCAL. The settings below count only with it."""
    anchor_weight: NotNegative = 0.7
    """Weight of the term that keeps features of labelled images near those of the reference network (alpha)."""
    projection_weight: NotNegative = 0.5
    """Share of the gradient within the known subspace that is removed for an image whose feature is entirely outside it
    (beta); the authors use 3 on Cars and Aircraft."""
    capped: bool = True
    """Whether at most all of that part is removed; otherwise a weight above 1 reverses it."""
    aperture: Positive = 2.0
    """Width of the known subspace: the larger, the more of the directions of little variance belong to it."""
    rescale: bool = True
    """Whether features are first scaled to a mean square of 1, so that the aperture means the same for every
    backbone (authors: no)."""
    start_from_reference: bool = True
    """Whether training starts from the reference network."""
    reference_epochs: AtLeastOne = 30
    """Epochs of the reference network, on labelled images only; the authors use 3 on CIFAR-100."""
    reference_batch_size: AtLeastOne = 32
    """Labelled images per step of the reference network."""
    reference_learning_rate: Positive = 0.02
    """Learning rate of the reference's heads; `training.tail_learning_rate` says at which fraction its tail learns."""


def check_guide(chosen: EagcSettings, method: type[BaseMethod], name: str, n_labelled: int) -> None:
    """Raise `ConfigError` where gradients cannot be guided: the method has none here, or nothing is labelled."""
    if not chosen.active:
        return
    if not method.trains or method.cuts_network:
        what = "trains inside the frozen network" if method.trains else "does not train"
        raise ConfigError("eagc.active", True, f"{name} {what}; leave it out, or choose another method")
    if n_labelled < processes.count():
        few = "there are none" if not n_labelled else "there are fewer of them than processes"
        raise ConfigError("eagc.active", True, f"needs labelled images, but {few}; leave it out")


class Guide(nn.Module):
    """The frozen reference, the known subspace and the energy of labelled images; part of a learner's state."""

    conceptor_dd: Tensor
    """Nearly a projection on the directions in which labelled images vary."""
    labelled_energy: Tensor
    """The moving mean share of a labelled image's feature that lies in the known subspace."""

    def __init__(self, chosen: EagcSettings, tail: nn.Module, n_features: int) -> None:
        super().__init__()
        self.chosen = chosen
        self.reference = deepcopy(tail).requires_grad_(False)
        self.register_buffer("conceptor_dd", torch.zeros(n_features, n_features))
        self.register_buffer("labelled_energy", torch.zeros(()))
        self._next_energy: Tensor | None = None

    @torch.no_grad()
    def open_subspace(self, features_nd: Tensor) -> None:
        """Find the known subspace from the reference's features of the labelled images."""
        # On the CPU: not every GPU has float64.
        z_nd = features_nd.double().cpu()
        correlation_dd = z_nd.T @ z_nd / len(z_nd)
        if self.chosen.rescale and (total := correlation_dd.trace()) > 0:
            correlation_dd *= len(correlation_dd) / total
        opened_dd = correlation_dd + torch.eye(len(correlation_dd)) / self.chosen.aperture**2
        self.conceptor_dd.copy_(torch.linalg.solve(opened_dd, correlation_dd))
        self.labelled_energy.copy_(self.energy(features_nd.to(self.conceptor_dd)).mean())

    def energy(self, features_vbd: Tensor) -> Tensor:
        """Return the share of each feature's squared length that lies in the known subspace, in [0, 1]."""
        inside_vb = (features_vbd @ self.conceptor_dd * features_vbd).sum(-1)
        square_vb = features_vbd.square().sum(-1).clamp_min(torch.finfo(features_vbd.dtype).tiny)
        return (inside_vb / square_vb).clamp(0, 1)

    def steer(self, features_vbd: Tensor, reference_vbd: Tensor, labels_b: Tensor) -> dict[str, Tensor]:
        """Let the gradient of these features be projected on its way back, and return the anchor's loss term."""
        is_labelled_b = labels_b >= 0
        lost_vb1 = self.lost_shares(features_vbd.detach(), is_labelled_b)[..., None]
        if features_vbd.requires_grad:
            features_vbd.register_hook(  # type: ignore[no-untyped-call]
                lambda gradient: gradient - lost_vb1 * (gradient @ self.conceptor_dd)
            )
        own, held = features_vbd[:, is_labelled_b], reference_vbd[:, is_labelled_b]
        anchor = F.mse_loss(own, held) if is_labelled_b.any() else features_vbd.sum() * 0
        return {"anchor": self.chosen.anchor_weight / 2 * anchor}

    @torch.no_grad()
    def lost_shares(self, features_vbd: Tensor, is_labelled_b: Tensor) -> Tensor:
        """Return the share of its gradient's known part that each view loses; labelled images lose none."""
        energy_vb, labelled = self.energy(features_vbd), self.labelled_energy
        if is_labelled_b.any():
            labelled = torch.lerp(energy_vb[:, is_labelled_b].mean(), labelled, MEMORY)
        # Stored only after the step: a batch that does not fit into memory is tried again.
        self._next_energy = labelled
        lost_vb = self.chosen.projection_weight * (1 - energy_vb / (labelled + 1e-6)).clamp(0, 1)
        lost_vb = lost_vb.clamp_max(1.0) if self.chosen.capped else lost_vb
        return lost_vb.masked_fill(is_labelled_b, 0.0)

    def after_step(self) -> None:
        """Store the mean energy that the batch has moved."""
        if self._next_energy is not None:
            self.labelled_energy.copy_(self._next_energy)
            self._next_energy = None


def make_guide(  # noqa: PLR0913 (as `train`, whose arguments most of these are)
    chosen: EagcSettings,
    model: Model,
    training: TrainingSettings,
    *,
    tail_learning_rate: float,
    seed: int,
    is_learnt: bool,
    source_of: Callable[[BaseMethod, TrainingSettings], BatchSource],
    overview: Callable[[int], Overview],
    fabric: Fabric,
    progress: Progress,
) -> Guide | None:
    """Return what guides the gradients, if EAGC is active: train a reference on the labels, and start from it.

    Args:
        chosen: the settings of EAGC.
        model: the model to be trained; `overview` sees images through its tail.
        training: the settings of the main training.
        tail_learning_rate: the tail's share of the learning rate.
        seed: of the reference's classifier.
        is_learnt: whether a checkpoint holds the state of the guide, so that nothing is to be learnt here.
        source_of: gives the batches of a method with other settings of training.
        overview: gives all images as the tail sees them.
        fabric: of this run.
        progress: shows the epochs.
    """
    if not chosen.active:
        return None
    tail = model.backbone.tail
    guide = Guide(chosen, tail, model.backbone.n_features).to(model.device)
    if is_learnt:
        return guide
    own = deepcopy(tail.state_dict())
    settings = replace(
        training,
        epochs=chosen.reference_epochs,
        batch_size=chosen.reference_batch_size,
        learning_rate=chosen.reference_learning_rate,
        weight_decay=WEIGHT_DECAY,
    )
    method = _Reference(None, replace(model.method.task, generator=torch_generator(seed, "reference")))
    progress.tell(f"The reference learns from the labels alone ({chosen.reference_epochs} epochs).")
    # A copy: where several processes train, a network can be wrapped for that only once.
    learner = Learner(deepcopy(tail), method, tail_learning_rate=tail_learning_rate)
    train(learner, source_of(method, settings), settings, overview=overview, fabric=fabric, run=None, progress=progress)
    for network in (tail, guide.reference):
        network.load_state_dict(learner.tail.state_dict())
    seen = overview(0)
    is_labelled_n = (seen.labels_n >= 0).to(seen.features_nd.device)
    guide.to(seen.features_nd.device).open_subspace(seen.features_nd[is_labelled_n])
    if not chosen.start_from_reference:
        tail.load_state_dict(own)
    return guide


class _Reference(BaseMethod):
    """A cosine classifier of the known classes, which sees labelled images only."""

    def __init__(self, config: None, task: Task) -> None:
        super().__init__(config, task)
        self.prototypes = Prototypes(task.n_features, task.n_old, generator=task.generator)

    def draw(
        self, labels: NDArray[np.int64], batch_size: int, generator: torch.Generator, *, drop_last: bool = True
    ) -> Sequence[Tensor]:
        """Return the labelled images in random order, in batches."""
        labelled_m = torch.from_numpy(np.flatnonzero(labels >= 0))
        drawn = labelled_m[torch.randperm(len(labelled_m), generator=generator)]
        return batches_of(drawn, batch_size, drop_last=drop_last)

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        """Return the cross-entropy with the labels."""
        logits_vbk = self.prototypes(batch.features_vbd)
        return {"classify": labelled_cross_entropy(logits_vbk, batch.labels_b, temperature=TEMPERATURE)}
