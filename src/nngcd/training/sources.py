"""The batches of training: from the view bank, or from images that pass through the trunk again in every epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nngcd.backbones.backbone import Backbone
from nngcd.core import processes
from nngcd.core.seeds import torch_generator
from nngcd.data.split import Images
from nngcd.training.bank import Bank
from nngcd.training.extraction import run_trunk
from nngcd.training.prefetch import pinned, prefetched
from nngcd.views import preprocessing as views
from nngcd.views.loading import ViewDataset, balanced_batches, view_loader


class HiddenBatch(NamedTuple):
    """A batch on its way to the tail; of several processes each has its share of it."""

    hidden_vb: Tensor
    """Two hidden states per image; with a centre view among them, it is the second."""
    labels_b: Tensor
    image_b: Tensor
    n_images: int
    """Images in the batch of all processes."""


class BatchSource(Protocol):
    """Gives each epoch's batches; the same seed and epoch give the same batches, whatever came before."""

    @property
    def n_batches(self) -> int:
        """Batches per epoch."""
        ...

    def batches(self, epoch: int) -> Iterator[HiddenBatch]:
        """Yield the batches, two views per image."""
        ...


class Draw(Protocol):
    """Chooses the images of each batch of an epoch, as `BaseMethod.draw` does."""

    def __call__(self, labels: NDArray[np.int64], batch_size: int, generator: torch.Generator) -> Sequence[Tensor]:
        """Return the images of each batch."""
        ...


class _Drawn:
    """Draws each epoch's images."""

    def __init__(self, labels: NDArray[np.int64], *, batch_size: int, seed: int, draw: Draw) -> None:
        self.labels_n = torch.from_numpy(labels)
        self.batch_size = batch_size
        self.seed = seed
        self.draw = draw

    @cached_property
    def n_batches(self) -> int:
        """Batches per epoch, which a method may know only once it has looked at the images."""
        return len(self._draw(epoch=0))

    def _draw(self, epoch: int) -> list[Tensor]:
        """Return the batches of all processes, each of which needs an image of every batch."""
        generator = torch_generator(self.seed, "sampler", epoch)
        drawn = self.draw(self.labels_n.numpy(), self.batch_size, generator)
        return [image_b for image_b in drawn if len(image_b) >= processes.count()]


class BankViews(_Drawn):
    """Views drawn from a bank, which has a few of every image."""

    def __init__(
        self,
        bank: Bank,
        labels: NDArray[np.int64],
        recipe: views.Recipe,
        *,
        batch_size: int,
        seed: int,
        draw: Draw = balanced_batches,
    ) -> None:
        super().__init__(labels, batch_size=batch_size, seed=seed, draw=draw)
        self.bank = bank
        self.recipe = recipe

    def batches(self, epoch: int) -> Iterator[HiddenBatch]:
        """Yield the batches, read while the one before is being learnt from."""
        return prefetched(self._read(epoch))

    def _read(self, epoch: int) -> Iterator[HiddenBatch]:
        generator = torch_generator(self.seed, "views", epoch)
        for image_b in self._draw(epoch):
            own = processes.share(len(image_b))
            view_vb, own_b = self._draw_views(len(image_b), generator)[:, own], image_b[own]
            hidden_m = self.bank.take(own_b.repeat(len(view_vb)), view_vb.flatten())
            hidden_vb = pinned(torch.unflatten(hidden_m, 0, view_vb.shape))
            yield HiddenBatch(hidden_vb, self.labels_n[own_b], own_b, len(image_b))

    def _draw_views(self, n_images: int, generator: torch.Generator) -> Tensor:
        """Return (2, B) view numbers: two different random views, or a random one and the centre."""
        n_random = self.bank.n_views - 1
        random_vb = 1 + torch.rand(n_images, n_random, generator=generator).argsort(-1).T[:2]
        if self.recipe == "two-random" and n_random >= 2:
            return random_vb
        return torch.stack([random_vb[0], torch.zeros_like(random_vb[0])])


def times_before(drawn: Tensor) -> Tensor:
    """Return how often each number stands before its place."""
    order = drawn.argsort(stable=True)
    ranked = drawn[order]
    times = torch.empty_like(drawn)
    times[order] = torch.arange(len(drawn)) - torch.searchsorted(ranked, ranked)
    return times


class OnlineViews(_Drawn):
    """Views drawn afresh from the images, whenever they are drawn, and passed through the frozen trunk."""

    def __init__(  # noqa: PLR0913 (what a batch depends on)
        self,
        images: Images,
        labels: NDArray[np.int64],
        backbone: Backbone,
        chosen: views.ViewSettings,
        *,
        batch_size: int,
        seed: int,
        may_flip: bool,
        n_workers: int,
        draw: Draw = balanced_batches,
    ) -> None:
        super().__init__(labels, batch_size=batch_size, seed=seed, draw=draw)
        self.images, self.backbone, self.chosen = images, backbone, chosen
        self.may_flip, self.n_workers = may_flip, n_workers

    def batches(self, epoch: int) -> Iterator[HiddenBatch]:
        """Yield the batches."""
        n_random = 2 if self.chosen.recipe == "two-random" else 1
        dataset = ViewDataset(
            self.images,
            self.backbone.preprocessing,
            seed=self.seed,
            n_random=n_random,
            may_flip=self.may_flip,
            augmentation=self.chosen.kind,
            purpose=f"train/{epoch}",
        )
        drawn = self._draw(epoch)
        again = torch.split(times_before(torch.cat(drawn)), [len(image_b) for image_b in drawn])
        own = [processes.share(len(image_b)) for image_b in drawn]
        item = [
            (image_b + len(self.images) * times)[part] for image_b, times, part in zip(drawn, again, own, strict=True)
        ]
        for image_b, part, views_bv in zip(
            drawn, own, view_loader(dataset, item, n_workers=self.n_workers), strict=True
        ):
            # Item 0 is the centre view: left out when there are two random ones, else the second.
            hidden_vb = run_trunk(self.backbone, views_bv.flip(1)[:, :2].transpose(0, 1))
            yield HiddenBatch(hidden_vb, self.labels_n[image_b[part]], image_b[part], len(image_b))


@dataclass(frozen=True, slots=True)
class RestingFirst:
    """Gives the batches of one source in the first epochs, in which the block rests, and those of another afterwards.

    A block that is trained from the first step on follows heads that know nothing yet, and its features become worse
    than they were (Kumar et al., "Fine-tuning can distort pretrained features", ICLR 2022).
    """

    rested: BatchSource
    source: BatchSource
    resting_epochs: int

    @property
    def n_batches(self) -> int:
        """Batches per epoch."""
        return self.source.n_batches

    def batches(self, epoch: int) -> Iterator[HiddenBatch]:
        """Yield the batches, of features while the block rests."""
        return (self.rested if epoch < self.resting_epochs else self.source).batches(epoch)
