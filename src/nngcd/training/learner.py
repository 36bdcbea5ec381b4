"""What is trained: the backbone's tail and the method's modules, as one module."""

from __future__ import annotations

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

    def forward(self, hidden_vb: Tensor, labels_b: Tensor, moment: Moment) -> dict[str, Tensor]:
        """Return the method's loss terms for a batch of hidden states (V, B, ...)."""
        n_views, n_images = hidden_vb.shape[:2]
        features_vbd = self.tail(hidden_vb.flatten(0, 1)).unflatten(0, (n_views, n_images))
        # Half precision pays in the backbone; similarities at temperature 0.04 need all their digits.
        with torch.autocast(hidden_vb.device.type, enabled=False):
            return self.method.loss(Batch(features_vbd.float(), labels_b, moment))
