"""Passing images through a frozen network: streaming, in batches that suit the machine."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import torch
from torch import Tensor

from nngcd.backbones.backbone import CPU_BATCH, Backbone, small_batches
from nngcd.core.progress import Progress
from nngcd.data.split import Images
from nngcd.views.loading import ViewDataset, view_loader

ACCELERATOR_BATCH = 256
IMAGES_PER_READ = 16


@torch.no_grad()
def run_trunk(backbone: Backbone, views: Tensor) -> Tensor:
    """Return the trunk's hidden states for uint8 views (..., 3, H, W), as (..., hidden shape)."""
    flat = views.flatten(0, -4)
    # Either part may have no weights.
    device = next(chain(backbone.trunk.parameters(), backbone.tail.parameters())).device
    size = CPU_BATCH if device.type == "cpu" else ACCELERATOR_BATCH
    parts = [
        backbone.trunk(backbone.preprocessing.normalise(part.to(device, non_blocking=True)))
        for part in torch.split(flat, size)
    ]
    hidden = torch.cat(parts)
    return hidden.reshape(*views.shape[:-3], *hidden.shape[1:])


@torch.no_grad()
def centre_features(
    backbone: Backbone, images: Images, *, rows: slice | None = None, n_workers: int, progress: Progress
) -> Iterator[Tensor]:
    """Yield the features of the images' centre views, batch by batch in order: what assignment is made from."""
    dataset = ViewDataset(images, backbone.preprocessing, seed=0, n_random=0, may_flip=False, purpose="centre")
    order = torch.arange(len(dataset))[rows or slice(None)]
    progress.start("features", len(order))
    for views_b1 in view_loader(dataset, order, batch_size=IMAGES_PER_READ, n_workers=n_workers):
        yield run_tail(backbone, run_trunk(backbone, views_b1[:, 0]))
        progress.advance(len(views_b1))
    progress.finish()


@torch.no_grad()
def run_tail(backbone: Backbone, hidden_n: Tensor) -> Tensor:
    """Return features_nd of hidden states, computed in pieces."""
    device = next(backbone.tail.parameters()).device
    pieces = (piece.to(device) for piece in torch.split(hidden_n, ACCELERATOR_BATCH))
    return torch.cat([backbone.tail(part.float()) for piece in pieces for part in small_batches(piece)])
