"""Passing images through a frozen network: streaming, in batches that suit the machine, kept for later runs."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from nngcd.backbones.backbone import CPU_BATCH, Backbone
from nngcd.core.errors import DataError, NngcdWarning, ResourceError
from nngcd.core.files import read_tensors, write_tensors
from nngcd.core.progress import Progress
from nngcd.datasets.split import Images, Split
from nngcd.loading import ViewDataset, view_loader

CODE_VERSION = 1
"""Raised when views or trunks are computed differently, so that older cached features are not used."""
ACCELERATOR_BATCH = 256
IMAGES_PER_READ = 16
VIEW_SEED = 0
"""Cached views are drawn from a fixed seed, so that runs with different seeds share one cache."""


@torch.no_grad()
def run_trunk(backbone: Backbone, views: Tensor) -> Tensor:
    """Return the trunk's hidden states for uint8 views (..., 3, H, W), as (..., hidden shape)."""
    flat = views.flatten(0, -4)
    device = next(backbone.trunk.parameters()).device
    size = CPU_BATCH if device.type == "cpu" else ACCELERATOR_BATCH
    parts = [
        backbone.trunk(backbone.preprocessing.normalise(part.to(device, non_blocking=True)))
        for part in torch.split(flat, size)
    ]
    hidden = torch.cat(parts)
    return hidden.reshape(*views.shape[:-3], *hidden.shape[1:])


def cached_hidden(  # noqa: PLR0913 (what the views depend on, and where they are kept)
    backbone: Backbone,
    split: Split,
    *,
    n_random: int,
    is_strong: bool = False,
    n_workers: int,
    cache: Path | None,
    progress: Progress,
) -> Tensor:
    """Return hidden_nv (N, 1 + n_random, ...): centre view first, then random views; half precision.

    With a cache folder the result is kept there under a name made of everything it depends on, and found again by any
    later run on the same images, backbone and preprocessing.
    """
    assert split.images is not None
    path = cache / f"features-{_key(backbone, split, n_random, is_strong)}.safetensors" if cache else None
    if path and path.is_file() and (kept := _read_kept(path)) is not None:
        progress.start("features", len(split.labels))
        progress.finish(f"taken from {path}")
        return kept
    dataset = ViewDataset(
        split.images, backbone.preprocessing, seed=VIEW_SEED, n_random=n_random, may_flip=split.may_flip,
        purpose="cache", is_strong=is_strong,
    )  # fmt: skip
    # Half precision also when the result is not read back, so that the first run equals all later ones.
    parts = [hidden.half().cpu() for hidden in _hidden_batches(backbone, dataset, n_workers, progress)]
    hidden_nv = torch.cat(parts)
    progress.finish(_keep(path, hidden_nv) if path else "")
    return hidden_nv


@torch.no_grad()
def centre_features(backbone: Backbone, images: Images, *, n_workers: int, progress: Progress) -> Iterator[Tensor]:
    """Yield the features of the images' centre views, batch by batch in order: what assignment is made from."""
    dataset = ViewDataset(images, backbone.preprocessing, seed=VIEW_SEED, n_random=0, may_flip=False, purpose="centre")
    for hidden_b1 in _hidden_batches(backbone, dataset, n_workers, progress):
        yield run_tail(backbone, hidden_b1[:, 0])
    progress.finish()


@torch.no_grad()
def run_tail(backbone: Backbone, hidden_n: Tensor) -> Tensor:
    """Return features_nd of hidden states, computed in pieces."""
    device = next(backbone.tail.parameters()).device
    return torch.cat([backbone.tail(part.float().to(device)) for part in torch.split(hidden_n, ACCELERATOR_BATCH)])


def _hidden_batches(backbone: Backbone, dataset: ViewDataset, n_workers: int, progress: Progress) -> Iterator[Tensor]:
    n_images = len(dataset)
    progress.start("features", n_images)
    for views_bv in view_loader(dataset, torch.arange(n_images), batch_size=IMAGES_PER_READ, n_workers=n_workers):
        yield run_trunk(backbone, views_bv)
        progress.advance(len(views_bv))


def _key(backbone: Backbone, split: Split, n_random: int, is_strong: bool) -> str:
    assert split.images is not None
    facts = {
        "images": [split.images.fingerprint(i) for i in range(len(split.images))],
        "may_flip": split.may_flip,
        "preprocessing": backbone.preprocessing.to_json(),
        "weights": backbone.trunk_fingerprint,
        "n_random": n_random,
        "view_seed": VIEW_SEED,
        "code": CODE_VERSION,
        **({"strong": True} if is_strong else {}),
    }
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:20]


def _keep(path: Path, hidden_nv: Tensor) -> str:
    """Write the hidden states for later runs and say where; a cache that cannot be written is no reason to stop."""
    try:
        write_tensors(path, {"hidden_nv": hidden_nv})
    except ResourceError as error:
        warnings.warn(f"features are not kept for later runs: {error} (--cache)", NngcdWarning, stacklevel=2)
        return ""
    return f"kept in {path} ({path.stat().st_size / 1e6:.0f} MB)"


def _read_kept(path: Path) -> Tensor | None:
    """Return the kept hidden states, or None when the file is damaged: it is then simply computed again."""
    try:
        return read_tensors(path)[0]["hidden_nv"]
    except (DataError, KeyError):
        return None
