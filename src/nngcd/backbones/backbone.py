"""A backbone: a frozen trunk, a trained tail, and how its images are prepared."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from nngcd.backbones.compiled import Around, Compiled
from nngcd.backbones.weights import fingerprint
from nngcd.core.device import Precision
from nngcd.core.errors import UserError
from nngcd.views.preprocessing import Preprocessing

# Images per trunk pass on a CPU. Measured on two cores in use with efficientnet_lite0 in channels_last, median of 8
# interleaved runs: 69 images/s in batches of 8, 38 in batches of 16, 31 in batches of 64.
CPU_BATCH = 8

# Maps per pass of a trained stage on a CPU. Measured on two idle cores with the last stage of efficientnet_lite0, 256
# maps, forward and backward, fastest of 5 interleaved runs: 1.22 s at once, 0.85 in batches of 64, 0.68 in batches of
# 16, 0.90 in batches of 8 (benchmarks/stage.py).
CPU_MAPS = 16

# Squared length of the features of effort quick.
QUICK_SQUARED_LENGTH = 20

# The paper's rate of 0.1 is for a transformer block. A CNN stage with frozen batch statistics cannot absorb such
# steps: all its features become the same vector (tests/test_pipeline.py trains one).
CNN_TAIL_LEARNING_RATE = 0.1

TailCut = Callable[[nn.Module], tuple[nn.Module, nn.Module]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Backbone:
    """A network from images to features, cut where training begins.

    The cut is made when `trunk` or `tail` is first asked for, so a network that cannot be cut can still be `frozen`.

    Args:
        name: what the user calls it.
        network: images (B, 3, H, W) to features (B, D).
        split: cuts the network into a trunk and a tail; a function of a module (or a `partial` of one), so that a
            model can be pickled.
        preprocessing: how it wants its images.
        n_features: D.
        fingerprint: hash of the network's weights as they were loaded.
        may_fold: whether the trunk's BatchNorms may be folded into its convolutions.
        tail_learning_rate: learning rate that suits the tail, as a fraction of the heads'.
    """

    name: str
    network: nn.Module
    split: TailCut
    preprocessing: Preprocessing
    n_features: int
    fingerprint: str
    may_fold: bool = False
    tail_learning_rate: float = 1.0

    @cached_property
    def _parts(self) -> tuple[Trunk, Tail]:
        trunk, tail = self.split(self.network)
        return Trunk(with_folded_norms(trunk) if self.may_fold else trunk), Tail(tail)

    @property
    def trunk(self) -> Trunk:
        """Images to hidden states: frozen, in eval mode, without autograd."""
        return self._parts[0]

    @property
    def tail(self) -> Tail:
        """Hidden states to features: trained, in eval mode too."""
        return self._parts[1]

    @cached_property
    def trunk_fingerprint(self) -> str:
        """Hash of the trunk alone: equal trunks give equal hidden states, so it can name what is cached of them."""
        return fingerprint(self.trunk)

    @property
    def sparse_weights(self) -> list[nn.Parameter]:
        """The weights of the tail that a sparse regulariser may touch: matrices, kernels and gains of norm layers."""
        return [p for name, p in self.tail.named_parameters() if name.endswith("weight") and p.requires_grad]


def with_folded_norms(network: nn.Module) -> nn.Module:
    """Return a copy in which every BatchNorm that follows a convolution is folded into it; equal to rounding.

    Only for networks whose modules list a BatchNorm right after the convolution that feeds it. Measured on two CPU
    cores in use, batches of 8, medians of two paired runs: efficientnet_lite0 is 1.28 and 1.51 times as fast, resnet18
    1.16 and 1.23 times.
    """
    folded = copy.deepcopy(network).eval()
    for module in folded.modules():
        children = list(module.named_children())
        for (conv_name, conv), (norm_name, norm) in pairwise(children):
            if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                setattr(module, conv_name, fuse_conv_bn_eval(conv, norm))
                # timm's BatchNorm carries the activation that follows it.
                setattr(module, norm_name, getattr(norm, "act", nn.Identity()))
    folded.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stubs miss this form
    return folded


class Trunk(nn.Module):
    """A module that never learns: eval mode whatever the caller sets, no gradients."""

    precision: Precision = "32-true"
    """Number format of its computations; its weights stay as they are."""
    compiled: Compiled | None = None
    """Replacement that computes in its place, where `engines.choose_engine` found it faster."""
    engine_reason: str = ""
    """Why it is computed by this engine."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network.requires_grad_(False)
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        """Return the hidden states of (B, 3, H, W) images."""
        if self.compiled is not None:
            return self.compiled(images)
        half = torch.float16 if self.precision == "16-mixed" else torch.bfloat16
        with torch.no_grad(), torch.autocast(images.device.type, half, enabled=self.precision != "32-true"):
            hidden: Tensor = self.network(images)
        return hidden

    def train(self, mode: bool = True) -> Trunk:
        """Stay in eval mode."""
        super().train(False)
        return self

    @property
    def engine(self) -> str:
        """The engine's name."""
        return "torch" if self.compiled is None else "openvino"

    @property
    def engine_facts(self) -> dict[str, str]:
        """The engine and why it was chosen, for a run's environment.json."""
        return {"name": self.engine, "reason": self.engine_reason}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was compiled for this machine: a copy or a pickle computes with torch."""
        return {name: value for name, value in self.__dict__.items() if name not in ("compiled", "engine_reason")}


class Tail(nn.Module):
    """A module that learns in eval mode: batch statistics stay as they are, and nothing is dropped.

    Then the same images always give the same features, and one pass serves student and teacher exactly.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.eval()

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the (B, D) features of the trunk's hidden states."""
        features: Tensor = self.network(hidden)
        return features

    def train(self, mode: bool = True) -> Tail:
        """Stay in eval mode."""
        super().train(False)
        return self


def small_batches(hidden: Tensor) -> tuple[Tensor, ...]:
    """Return hidden states for a tail in batches that suit the machine: a CPU's cache holds few maps of a CNN."""
    is_maps_on_cpu = hidden.ndim == 4 and hidden.device.type == "cpu"
    return torch.split(hidden, CPU_MAPS) if is_maps_on_cpu else (hidden,)


class ScaledFeatures(Around):
    """A network whose features all have the length `scale`."""

    scale: Tensor

    def __init__(self, network: nn.Module, scale: float) -> None:
        super().__init__()
        self.network = network
        # A buffer, so that it counts in the fingerprint of what is cached.
        self.register_buffer("scale", torch.tensor(scale))

    def forward(self, images: Tensor) -> Tensor:
        """Return (B, D) features of length `scale`."""
        return F.normalize(self.network(images), dim=-1) * self.scale


class Adapter(nn.Linear):
    """The trained last block of effort quick: a linear map that starts as the identity, without any randomness."""

    def __init__(self, n_features: int) -> None:
        super().__init__(n_features, n_features)

    def reset_parameters(self) -> None:
        """Set the weight to the identity and the bias to 0."""
        nn.init.eye_(self.weight)
        nn.init.zeros_(self.bias)


def adapter_of(tail: nn.Module) -> nn.Module:
    """Return the adapter of a tail, or the identity where it has none: what follows the trained block, if any is."""
    return next((part for part in tail.modules() if isinstance(part, Adapter)), nn.Identity())


def frozen(backbone: Backbone, scale: float = math.sqrt(QUICK_SQUARED_LENGTH)) -> Backbone:
    """Return the backbone of effort quick: the whole network is the trunk, its features have length `scale`.

    The tail is an `Adapter`. No cut is needed, so this works with any network.
    """
    split = partial(_split_at_features, scale=scale, n_features=backbone.n_features)
    return replace(backbone, tail_learning_rate=1.0, split=split)


def _split_at_features(network: nn.Module, *, scale: float, n_features: int) -> tuple[nn.Module, nn.Module]:
    return ScaledFeatures(network, scale), Adapter(n_features)


def feature_backbone(n_features: int) -> Backbone:
    """Return a backbone whose input already is a feature: normalised and scaled as in effort quick, then adapted."""
    return frozen(
        Backbone(
            name="features",
            network=nn.Identity(),
            split=_cannot_be_cut,
            preprocessing=Preprocessing(),
            n_features=n_features,
            fingerprint="features",
        )
    )


def _cannot_be_cut(network: nn.Module) -> tuple[nn.Module, nn.Module]:
    raise UserError("features have no network to train; use --effort quick.")
