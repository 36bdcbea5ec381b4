"""Choice of the network for a run that names none: the best one that is on this machine, or that may be downloaded."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from nngcd.backbones import OWN_BACKBONE
from nngcd.backbones.hub_cache import cached_names, hub_answers, is_cached
from nngcd.core.words import duration

VIEWS_PER_IMAGE = 3
"""Views of an image that effort quick makes of one size: the centre and two random ones."""
BEARABLE_SECONDS = 1.0
"""Most seconds an image may take before a download is offered: at 1 s, 1,000 images take a quarter of an hour."""
WITH_CONDITIONS = {"dinov3": "DINOv3", "mobileclip": "MobileCLIP"}
"""Networks whose licence has conditions, by a part of their names: a person has to choose them."""


@dataclass(frozen=True, slots=True)
class Network:
    """A pre-trained transformer that may be chosen for a user: its licence has no conditions on the use of results."""

    name: str
    """The timm model with its pre-training."""
    title: str
    """Its name for people."""
    megabytes: int
    """Size of the download."""
    gflop: float
    """Billions of additions and multiplications per view at `image_size`."""
    licence: str = "Apache-2.0"
    image_size: int = 224
    """Side of the crop in pixels; the DINOv2 models' own 518 would cost five times as much."""

    def seconds_per_image(self, gflop_per_second: float) -> float:
        """Return the seconds for the features of an image in effort quick."""
        return VIEWS_PER_IMAGE * self.gflop / gflop_per_second


SMALL = Network("vit_small_patch14_reg4_dinov2.lvd142m", "DINOv2 ViT-S/14", 88, 12.5)
BASE = Network("vit_base_patch14_reg4_dinov2.lvd142m", "DINOv2 ViT-B/14", 346, 47.5)
OTHERS = (
    Network("vit_small_patch14_dinov2.lvd142m", "DINOv2 ViT-S/14 without registers", 88, 12.3),
    Network("vit_base_patch14_dinov2.lvd142m", "DINOv2 ViT-B/14 without registers", 346, 46.6),
    Network("vit_small_patch16_224.dino", "DINO ViT-S/16", 87, 9.2),
    Network("vit_base_patch16_224.dino", "DINO ViT-B/16", 343, 35.1),
)


@dataclass(frozen=True, slots=True)
class ChosenBackbone:
    """A network, and the sentence that tells a person about it."""

    name: str
    image_size: int | None
    words: str


def choose_backbone(device: torch.device, *, may_download: Callable[[str], bool] | None = None) -> ChosenBackbone:
    """Return the best network for a machine: one in the cache, one that may be downloaded, or the packaged one.

    Args:
        device: where it will run. On a GPU the larger network comes first.
        may_download: asked with a question before anything is downloaded. When absent, nothing is, and no network
            connection is tried.
    """
    preferred = networks(device)
    note = _conditions_note()
    cached = next((network for network in preferred if is_cached(network.name)), None)
    if cached:
        words = (
            f"backbone: {cached.title} ({cached.licence}), found in the cache. The packaged network is less accurate "
            f"on photographs but much faster: --backbone {OWN_BACKBONE}"
        )
        return ChosenBackbone(cached.name, cached.image_size, words + note)
    best = preferred[0]
    seconds = best.seconds_per_image(measured_gflop_per_second(device))
    cost = f"{best.megabytes} MB, {best.licence}, about {duration(1000 * seconds)} per 1,000 images on this machine"
    if may_download and seconds < BEARABLE_SECONDS and hub_answers():
        question = f"Download {best.title} ({cost})? It is more accurate on photographs than the packaged network."
        if may_download(question):
            words = f"backbone: {best.title}, to be downloaded ({cost})"
            return ChosenBackbone(best.name, best.image_size, words + note)
    words = (
        f"backbone: {OWN_BACKBONE} (packaged). More accurate on photographs: {best.title} ({cost}); to use it: "
        "nngcd fit ... --download yes"
    )
    return ChosenBackbone(OWN_BACKBONE, None, words + note)


def networks(device: torch.device) -> list[Network]:
    """Return the transformers that may be chosen on a device, best first."""
    first = [SMALL, BASE] if device.type == "cpu" else [BASE, SMALL]
    return [*first, *OTHERS]


def measured_gflop_per_second(device: torch.device) -> float:
    """Return how many billions of operations a large matrix product makes per second, as transformers need them."""
    side = 1024 if device.type == "cpu" else 4096
    square = torch.ones(side, side, device=device)
    fastest = float("inf")
    for _ in range(4):
        started = time.perf_counter()
        float((square @ square)[0, 0])  # reading a number waits for a GPU
        fastest = min(fastest, time.perf_counter() - started)
    return 2e-9 * side**3 / fastest


def _conditions_note() -> str:
    """Return a sentence about networks in the cache that only a person may choose."""
    for name in cached_names():
        for part, title in WITH_CONDITIONS.items():
            if part in name.lower():
                return (
                    f"\n{title} is in the cache as well. Its licence has conditions, so you have to choose it: "
                    f"--backbone {name}"
                )
    return ""
