"""The first epochs of a run whose backbone's block rests: what follows it learns on features that are computed once.

A block that is trained from the first step on follows heads that know nothing yet, and its features become worse than
they were (Kumar et al., "Fine-tuning can distort pretrained features", ICLR 2022).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from nngcd.backbones.backbone import Backbone, adapter_of
from nngcd.core import processes
from nngcd.core.progress import Progress
from nngcd.training.bank import Bank, MemoryBank, mapped_views
from nngcd.training.extraction import run_tail
from nngcd.training.sources import BatchSource, HiddenBatch


class RestingFirst:
    """Gives the batches of one source in the first epochs, and those of another afterwards."""

    def __init__(self, rested: BatchSource, source: BatchSource, resting_epochs: int) -> None:
        self.rested, self.source, self.resting_epochs = rested, source, resting_epochs

    @property
    def n_batches(self) -> int:
        """Batches per epoch."""
        return self.source.n_batches

    def batches(self, epoch: int) -> Iterator[HiddenBatch]:
        """Yield the batches, of features while the block rests."""
        return (self.rested if epoch < self.resting_epochs else self.source).batches(epoch)


def rested_views(backbone: Backbone, bank: Bank, n_images: int, progress: Progress) -> MemoryBank:
    """Return the features of all views as the block gives them before training, when the adapter is the identity."""
    progress.start("resting block", len(range(n_images)[processes.share(n_images)]))
    views = mapped_views(bank, n_images, partial(run_tail, backbone), progress)
    progress.finish()
    return views


@torch.no_grad()
def rested_features(backbone: Backbone, rested: MemoryBank) -> Tensor:
    """Return the features of every image's centre view while the block rests."""
    features_nd: Tensor = adapter_of(backbone.tail)(rested.hidden_nv[:, 0])
    return features_nd
