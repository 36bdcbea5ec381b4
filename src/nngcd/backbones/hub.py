"""Pre-trained weights by timm name: from the local cache or the Hugging Face hub, or a clear refusal within seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub import constants
from torch import nn

from nngcd.backbones.hub_cache import hub_answers, is_cached
from nngcd.core.errors import ResourceError, UserError
from nngcd.core.torchvision_ops import make_torchvision_importable

make_torchvision_importable()

import timm  # noqa: E402 (torchvision must be importable first)


def check_pre_training(name: str, *, needs_weights: bool) -> None:
    """Raise `UserError` if timm knows no pre-training of this name; the message lists those there are.

    Args:
        name: an architecture, or an architecture, a dot and a pre-training.
        needs_weights: whether an architecture alone must have at least one pre-training.
    """
    architecture, _, pre_training = name.partition(".")
    known = timm.list_pretrained(f"{architecture}.*")
    if (pre_training and name not in known) or (needs_weights and not known):
        there_are = f"Choose from: {', '.join(known)}." if known else "Use your own with --weights FILE.safetensors."
        raise UserError(f"timm has no pre-trained weights '{name}'. {there_are}")


def pretrained_timm(name: str) -> nn.Module:
    """Return a timm network without classifier and with its pre-trained weights.

    Raises:
        ResourceError: the weights are neither in the cache nor can they be downloaded.
    """
    try:
        with _offline_unless_needed(name):
            model: nn.Module = timm.create_model(name, pretrained=True, num_classes=0)
    except Exception as error:  # each HTTP library has errors of its own; the cause is named and kept
        raise ResourceError(
            f"S04: the weights of '{name}' are not in the cache ({constants.HF_HUB_CACHE}) and cannot be downloaded "
            f"({type(error).__name__}). On a machine with a network, download {_address(name)}; "
            "copy the file here and add --weights FILE.safetensors."
        ) from error
    return model


def _address(name: str) -> str:
    hub_id, url = (timm.models.get_pretrained_cfg_value(name, key) for key in ("hf_hub_id", "url"))
    return f"{constants.ENDPOINT}/{hub_id}/resolve/main/model.safetensors" if hub_id else str(url)


@contextmanager
def _offline_unless_needed(name: str) -> Iterator[None]:
    """Let the hub look only into its cache where the weights are there, or while no network is: it would retry long."""
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or is_cached(name) or not hub_answers()
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
