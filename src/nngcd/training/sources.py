"""Where training gets its batches from: the view bank, or images read and passed through the trunk anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nngcd import views
from nngcd.backbones.backbone import Backbone
from nngcd.core import processes
from nngcd.core.seeds import torch_generator
from nngcd.datasets.split import Images
from nngcd.loading import ViewDataset, balanced_batches, view_loader
from nngcd.training.bank import Bank
from nngcd.training.extraction import run_trunk
from nngcd.training.prefetch import pinned, prefetched


class Views(NamedTuple):
    """A batch on its way to the tail; of several processes each has its share of it."""

    hidden_vb: Tensor
    """Two hidden states per image; with a centre view among them, it is the second."""
    labels_b: Tensor
    image_b: Tensor
    n_images: int
    """Images in the batch of all processes."""


class Source(Protocol):
    """Gives each epoch's batches; the same seed and epoch give the same batches, whatever came before."""

    @property
    def n_batches(self) -> int:
        """Batches per epoch."""
        ...

    def batches(self, epoch: int) -> Iterator[Views]:
        """Yield the batches, two views per image."""
        ...


class _Balanced:
    """Draws each epoch's images, labelled and unlabelled in equal parts."""

    def __init__(self, labels: NDArray[np.int64], *, batch_size: int, seed: int) -> None:
        self.labels_n = torch.from_numpy(labels)
        self.batch_size = batch_size
        self.seed = seed
        self.n_batches = len(self._draw(epoch=0))

    def _draw(self, epoch: int) -> Tensor:
        """Return the batches of all processes as (n_batches, B)."""
        generator = torch_generator(self.seed, "sampler", epoch)
        return balanced_batches(self.labels_n.numpy(), self.batch_size, generator)


class BankViews(_Balanced):
    """Views drawn from a bank, which has a few of every image."""

    def __init__(
        self, bank: Bank, labels: NDArray[np.int64], recipe: views.Recipe, *, batch_size: int, seed: int
    ) -> None:
        super().__init__(labels, batch_size=batch_size, seed=seed)
        self.bank = bank
        self.recipe = recipe

    def batches(self, epoch: int) -> Iterator[Views]:
        """Yield the batches, read while the one before is being learnt from."""
        return prefetched(self._read(epoch))

    def _read(self, epoch: int) -> Iterator[Views]:
        generator = torch_generator(self.seed, "views", epoch)
        for image_b in self._draw(epoch):
            own = processes.share(len(image_b))
            view_vb, own_b = self._draw_views(len(image_b), generator)[:, own], image_b[own]
            hidden_m = self.bank.take(own_b.repeat(len(view_vb)), view_vb.flatten())
            hidden_vb = pinned(torch.unflatten(hidden_m, 0, view_vb.shape))
            yield Views(hidden_vb, self.labels_n[own_b], own_b, len(image_b))

    def _draw_views(self, n_images: int, generator: torch.Generator) -> Tensor:
        """Return (2, B) view numbers: two different random views, or a random one and the centre."""
        n_random = self.bank.n_views - 1
        random_vb = 1 + torch.rand(n_images, n_random, generator=generator).argsort(-1).T[:2]
        if self.recipe == "two-random" and n_random >= 2:
            return random_vb
        return torch.stack([random_vb[0], torch.zeros_like(random_vb[0])])


def times_before(drawn: Tensor) -> Tensor:
    """Return how often each number stands before its place, row after row."""
    flat = drawn.flatten()
    order = flat.argsort(stable=True)
    ranked = flat[order]
    times = torch.empty_like(flat)
    times[order] = torch.arange(len(flat)) - torch.searchsorted(ranked, ranked)
    return times.view_as(drawn)


class OnlineViews(_Balanced):
    """Views drawn afresh from the images, whenever they are drawn, and passed through the frozen trunk."""

    def __init__(  # noqa: PLR0913 (what a batch depends on)
        self,
        images: Images,
        labels: NDArray[np.int64],
        backbone: Backbone,
        recipe: views.Recipe,
        *,
        batch_size: int,
        seed: int,
        may_flip: bool,
        n_workers: int,
    ) -> None:
        super().__init__(labels, batch_size=batch_size, seed=seed)
        self.images, self.backbone, self.recipe = images, backbone, recipe
        self.may_flip, self.n_workers = may_flip, n_workers

    def batches(self, epoch: int) -> Iterator[Views]:
        """Yield the batches."""
        n_random = 2 if self.recipe == "two-random" else 1
        dataset = ViewDataset(
            self.images,
            self.backbone.preprocessing,
            seed=self.seed,
            n_random=n_random,
            may_flip=self.may_flip,
            is_strong=self.recipe == "strong+weak",
            purpose=f"train/{epoch}",
        )
        drawn = self._draw(epoch)
        n_images, own = drawn.shape[1], processes.share(drawn.shape[1])
        item = (drawn + len(self.images) * times_before(drawn))[:, own]
        for image_b, views_bv in zip(drawn[:, own], view_loader(dataset, item, n_workers=self.n_workers), strict=True):
            # Item 0 is the centre view: left out when there are two random ones, else the second.
            hidden_vb = run_trunk(self.backbone, views_bv.flip(1)[:, :2].transpose(0, 1))
            yield Views(hidden_vb, self.labels_n[image_b], image_b, n_images)
