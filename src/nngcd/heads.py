"""What sits on the backbone: a projection for the contrastive losses and a classifier by cosine."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nngcd.core.errors import ConfigError, did_you_mean

Activation = Callable[[Tensor], Tensor]


def rep_relu(x: Tensor) -> Tensor:
    """Return ReLU(x) with the gradient of GELU: non-negative without dead neurons (NCL, Wang et al. 2024)."""
    gelu = F.gelu(x)
    # Grouped so that the forward value is ReLU to the bit: 0 + relu.
    return (gelu - gelu.detach()) + F.relu(x).detach()


def identity(x: Tensor) -> Tensor:
    """Return x: no activation, as in SimGCD."""
    return x


ACTIVATIONS: dict[str, Activation] = {
    "gelu": F.gelu,
    "rep_relu": rep_relu,
    "relu": F.relu,
    "silu": F.silu,
    "softplus": F.softplus,
    "sigmoid": torch.sigmoid,
    "identity": identity,
}
"""The choices of phi in f_+ = phi(f): NN-GCD, Eq. (18). GELU, Eq. (19), and SiLU are not non-negative: their minima are
-0.17 and -0.28. At the start of training 44 % of a GELU projection's L1 mass is negative (`negative_mass`)."""


def find_activation(name: str) -> Activation:
    """Return the activation of that name.

    Raises:
        ConfigError: there is none; the message lists those there are.
    """
    if name not in ACTIVATIONS:
        hint = did_you_mean(name, ACTIVATIONS)
        raise ConfigError("activation", name, f"no such activation.{hint} There are: {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


class ProjectionHead(nn.Module):
    """Three linear layers with GELU between them, then the activation; the output is not normalised (the losses do it).

    SimGCD's head, which is `activation="identity"`. The authors pass a batch-norm flag, but their layers have none.
    """

    def __init__(
        self,
        n_features: int,
        *,
        n_hidden: int = 2048,
        n_out: int = 256,
        activation: str = "gelu",
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.activation = find_activation(activation)
        self.mlp = nn.Sequential(
            _linear(n_features, n_hidden, generator),
            nn.GELU(),
            _linear(n_hidden, n_hidden, generator),
            nn.GELU(),
            _linear(n_hidden, n_out, generator),
        )

    def forward(self, features_vbd: Tensor) -> Tensor:
        """Return the projections of features with any leading axes."""
        return self.activation(self.mlp(features_vbd))


class Prototypes(nn.Module):
    """One direction per cluster; a logit is the cosine between feature and prototype, in [-1, 1]: NN-GCD, Eq. (24).

    The authors use a weight-normalised linear layer whose length g is fixed at 1. Normalising the weight on the way is
    the same function with the same gradient (tested), with nothing left to freeze.
    """

    def __init__(
        self, n_features: int, n_clusters: int, *, generator: torch.Generator, learning_rate: float | None = None
    ) -> None:
        super().__init__()
        # torch's default for linear layers, which the authors left in place: the length is sqrt(D * (1 / D) / 3) =
        # 0.577 whatever the number of features.
        bound = 1 / math.sqrt(n_features)
        weight_kd = torch.empty(n_clusters, n_features).uniform_(-bound, bound, generator=generator)
        self.weight = nn.Parameter(weight_kd)
        # The length of a normalised prototype is its learning rate in disguise: the gradient is inversely proportional
        # to it, and so is the angle a step of given size turns by. Length 1 / sqrt(r) is r times the learning rate; the
        # authors' start is 3 times, and falls or rises with what the losses and the weight decay do to the length.
        self.length = None if learning_rate is None else 1 / math.sqrt(learning_rate)
        self.hold_length()

    @torch.no_grad()
    def hold_length(self) -> None:
        """Bring every prototype back to its length after a step, if that is to stay."""
        if self.length is not None:
            self.weight.copy_(F.normalize(self.weight, dim=-1) * self.length)

    def forward(self, features_vbd: Tensor) -> Tensor:
        """Return the logits of features with any leading axes; they are normalised here."""
        return F.normalize(features_vbd, dim=-1) @ F.normalize(self.weight, dim=-1).T


def non_negative_ratio(x: Tensor) -> float:
    """Return the share of entries that are not negative; nan for an empty tensor."""
    return float((x.detach() >= 0).float().mean())


def negative_mass(x: Tensor) -> float:
    """Return the share of the L1 norm that negative entries hold; 0 for a zero tensor."""
    magnitude = x.detach().abs()
    return float(magnitude[x < 0].sum() / magnitude.sum().clamp_min(torch.finfo(x.dtype).tiny))


def _linear(n_in: int, n_out: int, generator: torch.Generator) -> nn.Linear:
    # Made on "meta", because a linear layer's own initialisation draws from torch's global random state.
    layer = nn.Linear(n_in, n_out, device="meta").to_empty(device="cpu")
    nn.init.trunc_normal_(layer.weight, std=0.02, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer
