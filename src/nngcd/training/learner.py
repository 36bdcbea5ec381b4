"""What is trained: the backbone's tail and the method's modules, as one module."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn

from nngcd.methods.contract import BaseMethod, Batch, Moment


class Learner(nn.Module):
    """Tail and method together, so that one wrapper (precision, several processes) covers the whole loss."""

    def __init__(self, tail: nn.Module, method: BaseMethod, *, tail_learning_rate: float = 1.0) -> None:
        super().__init__()
        self.tail_learning_rate = tail_learning_rate
        self.tail = tail
        self.method = method
        self.teacher_tail = deepcopy(tail).requires_grad_(False) if method.averages_tail else None

    def forward(self, hidden_vb: Tensor, labels_b: Tensor, image_b: Tensor, moment: Moment) -> dict[str, Tensor]:
        """Return the method's loss terms for a batch of hidden states (V, B, ...)."""
        features_vbd, teacher_vbd = _features(self.tail, hidden_vb), None
        if self.teacher_tail is not None:
            with torch.no_grad():
                teacher_vbd = _features(self.teacher_tail, hidden_vb).float()
        # Half precision pays in the backbone; similarities at temperature 0.04 need all their digits.
        with torch.autocast(hidden_vb.device.type, enabled=False):
            return self.method.loss(Batch(features_vbd.float(), labels_b, moment, image_b, teacher_vbd))

    @torch.no_grad()
    def after_step(self, moment: Moment) -> None:
        """Move the averaged tail, if there is one, and let the method do what follows a step."""
        if self.teacher_tail is not None:
            share = 1 - self.method.teacher_momentum(moment)
            for average, parameter in zip(self.teacher_tail.parameters(), self.tail.parameters(), strict=True):
                average.lerp_(parameter, share)
        self.method.after_step(moment)

    def finish(self) -> None:
        """Leave the averaged tail, if there is one, as the result of training."""
        if self.teacher_tail is not None:
            self.tail.load_state_dict(self.teacher_tail.state_dict())


def _features(tail: nn.Module, hidden_vb: Tensor) -> Tensor:
    features_vbd: Tensor = tail(hidden_vb.flatten(0, 1)).unflatten(0, hidden_vb.shape[:2])
    return features_vbd
