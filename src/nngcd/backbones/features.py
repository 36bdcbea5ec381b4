"""The backbone of people who bring features instead of images: no network, only the adapter of effort quick."""

from __future__ import annotations

from torch import nn

from nngcd.backbones.backbone import Backbone, frozen
from nngcd.core.errors import UserError
from nngcd.views.preprocessing import Preprocessing


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
