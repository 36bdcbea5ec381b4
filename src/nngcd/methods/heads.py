"""Heads on the backbone: a projection for contrastive losses, a cosine classifier, and InfoSieve's code."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain, pairwise
from typing import NamedTuple

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
    """Return the activation of that name."""
    if name not in ACTIVATIONS:
        hint = did_you_mean(name, ACTIVATIONS)
        raise ConfigError("activation", name, f"unknown activation.{hint} Choose from: {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


class ProjectionHead(nn.Module):
    """Linear layers with GELU between them, then the activation; the output is not normalised (the losses do it).

    Three layers with `activation="identity"` are SimGCD's head. Its authors pass a batch-norm flag, but have none.
    With `n_out=0` there is no layer, and the activation takes the features.
    """

    def __init__(
        self,
        n_features: int,
        *,
        n_hidden: int = 2048,
        n_out: int = 256,
        activation: str = "gelu",
        n_layers: int = 3,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.activation = find_activation(activation)
        widths = [n_features, *[n_hidden] * (n_layers - 1), n_out]
        self.mlp = _perceptron(widths, generator) if n_out else nn.Sequential()

    def forward(self, features_vbd: Tensor) -> Tensor:
        """Return the projections of features with any leading axes."""
        return self.activation(self.mlp(features_vbd))


class Prototypes(nn.Module):
    """One direction per cluster; a logit is the cosine between feature and prototype, in [-1, 1]: NN-GCD, Eq. (24).

    The authors use a weight-normalised linear layer whose length g is fixed at 1. Normalising the weight on the way is
    the same function with the same gradient (tested), with nothing left to freeze.
    """

    n_used: Tensor

    def __init__(
        self,
        n_features: int,
        n_clusters: int,
        *,
        generator: torch.Generator,
        learning_rate: float | None = None,
        most: int | None = None,
    ) -> None:
        """Make prototypes at random.

        Args:
            n_features: length of a feature.
            n_clusters: how many prototypes there are.
            generator: of their directions.
            learning_rate: see `length` below; None leaves it to the length.
            most: the most there may ever be (`resize`); None: their number is fixed.
        """
        super().__init__()
        # torch's default for linear layers, which the authors left in place: the length is sqrt(D * (1 / D) / 3) =
        # 0.577 whatever the number of features.
        bound = 1 / math.sqrt(n_features)
        weight_kd = torch.empty(n_clusters, n_features).uniform_(-bound, bound, generator=generator)
        # Rows without a cluster are zero: an optimiser and a checkpoint want parameters whose shape stays.
        self.weight = nn.Parameter(F.pad(weight_kd, (0, 0, 0, (most or n_clusters) - n_clusters)))
        self.may_change = most is not None
        self.register_buffer("n_used", torch.tensor(n_clusters), persistent=self.may_change)
        # The length of a normalised prototype is its learning rate in disguise: the gradient is inversely proportional
        # to it, and so is the angle a step of given size turns by. Length 1 / sqrt(r) is r times the learning rate; the
        # authors' start is 3 times, and falls or rises with what the losses and the weight decay do to the length.
        self.length = None if learning_rate is None else 1 / math.sqrt(learning_rate)
        self.hold_length()

    @property
    def used_kd(self) -> Tensor:
        """The prototypes in use."""
        return self.weight[: int(self.n_used)] if self.may_change else self.weight

    @torch.no_grad()
    def resize(self, n_clusters: int) -> None:
        """Change how many prototypes there are, at most to `most`.

        New ones are as long as the others are on average, and have the direction of the first one.
        """
        if (before := int(self.n_used)) == n_clusters:
            return
        length = torch.linalg.vector_norm(self.used_kd, dim=-1).mean()
        self.weight[before:n_clusters] = F.normalize(self.weight[0], dim=0) * length
        self.weight[n_clusters:] = 0
        self.n_used.fill_(n_clusters)

    @torch.no_grad()
    def trim(self) -> None:
        """Remove unused rows; from now on the number is fixed."""
        self.weight = nn.Parameter(self.used_kd.clone(), requires_grad=self.weight.requires_grad)
        self.may_change = False
        self.register_buffer("n_used", self.n_used, persistent=False)

    @torch.no_grad()
    def follow(self, other: Prototypes, share: float) -> None:
        """Move a share of the way towards other prototypes of the same kind, as an averaged teacher does."""
        for own, goal in zip(self.parameters(), other.parameters(), strict=True):
            own.lerp_(goal, share)

    @torch.no_grad()
    def hold_length(self) -> None:
        """Restore every prototype's length after a step, if it is fixed."""
        if self.length is not None:
            self.weight.copy_(F.normalize(self.weight, dim=-1) * self.length)

    @torch.no_grad()
    def turn(self, direction_kd: Tensor, cluster_k: Tensor | None = None) -> None:
        """Turn prototypes, all of them by default, towards new directions.

        Their lengths, on which the speed of learning depends, stay.
        """
        if cluster_k is None:
            cluster_k = torch.arange(int(self.n_used), device=self.weight.device)
        length_k1 = torch.linalg.vector_norm(self.weight[cluster_k], dim=-1, keepdim=True)
        self.weight[cluster_k] = F.normalize(direction_kd.to(self.weight), dim=-1) * length_k1

    def forward(self, features_vbd: Tensor) -> Tensor:
        """Return the logits of features with any leading axes; they are normalised here."""
        return F.normalize(features_vbd, dim=-1) @ F.normalize(self.used_kd, dim=-1).T


class Codes(NamedTuple):
    """InfoSieve's codes of L digits, the most significant first."""

    raw_vbl: Tensor
    """Digits in (-1, 1)."""
    weighted_vbl: Tensor
    """The digits by their place."""
    mask_vbl: Tensor
    """Share of each digit that is part of the code, in (0, 1)."""
    category_vbk: Tensor
    """Logit of each known class, from the weighted digits that the mask leaves."""


class CodeHead(nn.Module):
    """InfoSieve's coder, masker and categorizer: its paper's three networks, with the sizes of its code."""

    def __init__(
        self, n_features: int, n_classes: int, *, n_digits: int = 40, n_hidden: int = 128, generator: torch.Generator
    ) -> None:
        super().__init__()
        # InfoSieve's `nlayers=2` counts what lies between the first hidden layer and the output.
        hidden = [n_hidden] * 3
        self.coder = _perceptron([n_features, *hidden, n_digits], generator)
        self.masker = _perceptron([n_features, *hidden, n_digits], generator)
        self.categorizer = _perceptron([n_digits, *hidden, n_classes], generator)

    def forward(self, z_vbd: Tensor, *, age: float, base: float) -> Codes:
        """Return the codes of normalised projections.

        Args:
            z_vbd: projections at length 1.
            age: sharpens the digits, tanh(age x), as training goes on; masks start open and lose that bias.
            base: base of the number system; digit k (from 0) counts base^-k.
        """
        raw_vbl = torch.tanh(age * self.coder(z_vbd))
        mask_vbl = (torch.tanh(self.masker(z_vbd) + 1 / (age + 1)) + 1) / 2
        place_l = base ** -torch.arange(raw_vbl.shape[-1], dtype=raw_vbl.dtype, device=raw_vbl.device)
        weighted_vbl = raw_vbl * place_l
        return Codes(raw_vbl, weighted_vbl, mask_vbl, self.categorizer(mask_vbl * weighted_vbl))


def negative_mass(x: Tensor) -> float:
    """Return the share of the L1 norm that negative entries hold; 0 for a zero tensor."""
    magnitude = x.detach().abs()
    return float(magnitude[x < 0].sum() / magnitude.sum().clamp_min(torch.finfo(x.dtype).tiny))


def _perceptron(sizes: list[int], generator: torch.Generator) -> nn.Sequential:
    *hidden, last = [_linear(*pair, generator) for pair in pairwise(sizes)]
    return nn.Sequential(*chain.from_iterable((layer, nn.GELU()) for layer in hidden), last)


def _linear(n_in: int, n_out: int, generator: torch.Generator) -> nn.Linear:
    # Made on "meta", because a linear layer's own initialisation draws from torch's global random state.
    layer = nn.Linear(n_in, n_out, device="meta").to_empty(device="cpu")
    nn.init.trunc_normal_(layer.weight, std=0.02, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer
