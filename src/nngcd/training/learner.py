"""The trained part: the backbone's tail and the method's modules, as one module."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from nngcd.backbones.backbone import adapter_of, small_batches
from nngcd.core import processes
from nngcd.methods.contract import BaseMethod, Batch, Moment

if TYPE_CHECKING:
    from nngcd.training.eagc import Guide


class Part(NamedTuple):
    """Parameters that learn alike."""

    parameters: list[nn.Parameter]
    rate: float
    """Their fraction of the learning rate."""
    is_tail: bool
    is_paced: bool = False
    """Whether the method says their rate, step by step."""


class Learner(nn.Module):
    """Tail and method together, so that one wrapper (precision, several processes) covers the whole loss."""

    n_pieces: int = 1
    """In how many pieces the tail takes a batch. More need less memory and one more pass; the loss sees the whole batch
    and stays the same."""

    def __init__(
        self,
        tail: nn.Module,
        method: BaseMethod,
        *,
        tail_learning_rate: float = 1.0,
        resting_epochs: int = 0,
        guide: Guide | None = None,
    ) -> None:
        super().__init__()
        self.tail_learning_rate = tail_learning_rate
        self.resting_epochs = resting_epochs
        self.tail = tail
        self.method = method
        self.guide = guide
        self.teacher_tail = deepcopy(tail).requires_grad_(False) if method.averages_tail else None

    def parts(self) -> list[Part]:
        """Return what is trained: tail and heads, and of the tail what the method paces.

        An adapter that follows a trained stage is not part of the network: it learns as fast as the heads.
        """
        adapter, stage = [*adapter_of(self.tail).parameters()], self._stage()
        paced = self.method.paced(self.tail)
        parts = [
            Part(stage, self.tail_learning_rate, is_tail=True),
            # In effort quick the adapter is the whole tail, so that a rate of the tail is meant for it.
            Part(adapter, 1.0 if stage else self.tail_learning_rate, is_tail=not stage),
            Part([*self.method.parameters()], 1.0, is_tail=False),
        ]
        others = [part._replace(parameters=_without(part.parameters, paced)) for part in parts]
        return [Part(paced, self.tail_learning_rate, is_tail=True, is_paced=True), *others]

    def forward(
        self, hidden_vb: Tensor, labels_b: Tensor, image_b: Tensor, n_images: int, moment: Moment
    ) -> dict[str, Tensor]:
        """Return the method's loss terms for a batch of hidden states (V, B, ...); while the stage rests, of features.

        Of several processes each passes its share of the `n_images` through the tail. The features are then gathered,
        so that every process has the loss of the whole batch: contrastive losses compare all with all.
        """
        hidden_vb = self.method.arrange(hidden_vb, moment)
        features_vbd, teacher_vbd = self._features(self._awake(self.tail, moment), hidden_vb, n_images), None
        if self.teacher_tail is not None:
            with torch.no_grad():
                teacher_vbd = self._features(self._awake(self.teacher_tail, moment), hidden_vb, n_images)
        labels_b, image_b = processes.gather(labels_b, n_images), processes.gather(image_b, n_images)
        # Half precision pays in the backbone; similarities at temperature 0.04 need all their digits.
        with torch.autocast(hidden_vb.device.type, enabled=False):
            held = {} if self.guide is None else self._steered(self.guide, hidden_vb, features_vbd, labels_b)
            return self.method.loss(Batch(features_vbd, labels_b, moment, image_b, teacher_vbd)) | held

    def _steered(self, guide: Guide, hidden_vb: Tensor, features_vbd: Tensor, labels_b: Tensor) -> dict[str, Tensor]:
        """Let the guide change the features' gradient on its way back, and return its loss terms."""
        with torch.no_grad():
            reference_vbd = self._features(guide.reference, hidden_vb, len(labels_b))
        return guide.steer(features_vbd, reference_vbd, labels_b)

    def _stage(self) -> list[nn.Parameter]:
        """Return what of the tail is a part of the network."""
        return _without([*self.tail.parameters()], [*adapter_of(self.tail).parameters()])

    def _awake(self, tail: nn.Module, moment: Moment) -> nn.Module:
        return adapter_of(tail) if moment.epoch < self.resting_epochs else tail

    def _features(self, tail: nn.Module, hidden_vb: Tensor, n_images: int) -> Tensor:
        """Return features_vbd of the whole batch, of which this process has the hidden states of its share."""
        hidden_m = hidden_vb.flatten(0, 1)
        if self.n_pieces == 1:
            parts = [tail(part.float()) for part in small_batches(hidden_m)]
        else:
            parts = [_recomputed(tail, piece) for piece in hidden_m.tensor_split(min(self.n_pieces, len(hidden_m)))]
        features_bvd = torch.unflatten(torch.cat(parts).float(), 0, hidden_vb.shape[:2]).transpose(0, 1)
        return processes.gather(features_bvd, n_images).transpose(0, 1)

    def before_step(self, moment: Moment) -> None:
        """Let the stage rest in the first epochs, and let the method say what else rests in this step."""
        if moment.epoch < self.resting_epochs:
            # A regulariser of its weights has given it gradients.
            for parameter in self._stage():
                parameter.grad = None
        self.method.before_step(self.tail, moment)

    @torch.no_grad()
    def after_step(self, moment: Moment) -> None:
        """Move the averaged tail, if there is one, and let the method do what follows a step."""
        if self.teacher_tail is not None:
            share = 1 - self.method.teacher_momentum(moment)
            for average, parameter in zip(self.teacher_tail.parameters(), self.tail.parameters(), strict=True):
                average.lerp_(parameter, share)
        if self.guide is not None:
            self.guide.after_step()
        self.method.after_step(moment)

    def finish(self) -> None:
        """Leave the averaged tail, if there is one, as the result of training."""
        if self.teacher_tail is not None:
            self.tail.load_state_dict(self.teacher_tail.state_dict())


def _without(parameters: list[nn.Parameter], others: list[nn.Parameter]) -> list[nn.Parameter]:
    return [p for p in parameters if all(p is not other for other in others)]


def _recomputed(tail: nn.Module, hidden_b: Tensor) -> Tensor:
    """Return the tail's features; what it computes on the way is not kept but computed again for the gradient."""
    features_bd: Tensor = checkpoint(tail, hidden_b.float(), use_reentrant=False)
    return features_bd
