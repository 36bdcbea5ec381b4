"""The views of all images, as the trunk gives them: kept or drawn online, whitened, and passed on in batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from nngcd.backbones.backbone import Backbone, adapter_of
from nngcd.backbones.sizes import cells_of_sizes
from nngcd.backbones.whitened import whitened, whitening_part
from nngcd.clustering.whitening import main_directions, whitening
from nngcd.core import processes
from nngcd.core.device import choose_workers
from nngcd.core.progress import Progress
from nngcd.core.seeds import derive, torch_generator
from nngcd.data.split import Split
from nngcd.methods.contract import BaseMethod, Overview
from nngcd.runs.preparing import Job
from nngcd.settings import Settings
from nngcd.training.bank import Bank, LookBank, MapLookBank, MemoryBank, mapped_views
from nngcd.training.bank_completing import view_bank
from nngcd.training.extraction import centre_features, run_tail
from nngcd.training.loop import TrainingSettings
from nngcd.training.model import device_of, move
from nngcd.training.sources import BankViews, BatchSource, OnlineViews, RestingFirst
from nngcd.views.preprocessing import feature_views

IMAGES_PER_LOOK = 1024


@dataclass(frozen=True, slots=True)
class Views:
    """The views of all images, and the network that sees them."""

    split: Split
    """Data that training may know."""
    settings: Settings
    backbone: Backbone
    bank: Bank | None
    """Kept views; None when they are drawn online."""
    rested: MemoryBank | None = None
    """Kept views as the last block gives them before it learns; for the first epochs, in which it rests."""
    plain_nd: Tensor | None = None
    """Features of the pre-trained network, for methods that count labelled images."""

    @classmethod
    def of(cls, job: Job, *, cache: Path | None, progress: Progress) -> Views:
        """Return the views of a job; those that are kept come from the cache, or pass through the trunk now."""
        return cls(job.split, job.settings, job.backbone, _kept(job, cache=cache, progress=progress))

    @property
    def n(self) -> int:
        """The number of images."""
        return len(self.split)

    def centre_features(self, progress: Progress | None = None) -> Tensor:
        """Return the features of every image's centre view, as the tail gives them now."""
        progress, own = progress or Progress(), processes.share(self.n)
        if self.bank is not None:
            parts = self._kept_centres(self.bank, torch.arange(self.n)[own], progress)
        else:
            assert self.split.images is not None
            n_workers = choose_workers(self.settings.workers)
            parts = centre_features(self.backbone, self.split.images, rows=own, n_workers=n_workers, progress=progress)
        return processes.gather(torch.cat(list(parts)), self.n)

    def with_plain_features(self, progress: Progress) -> Views:
        """Return the same views, with the features of the pre-trained network if the method needs them."""
        loss = self.settings.loss
        if not (getattr(loss, "split_epochs", 0) or getattr(loss, "split_at_end", False)):
            return self
        plain_nd = F.normalize(main_directions(self.centre_features(progress)), dim=-1).float()
        return dataclasses.replace(self, plain_nd=plain_nd)

    def whitened(self, progress: Progress) -> Views:
        """Return the same views with whitened features."""
        assert self.settings.whitened_features
        # The old features get no name: a name would keep them in memory, and they are several times larger.
        backbone, bank = whitened_views(
            self.backbone,
            self.bank,
            self.centre_features(progress),
            self.split.labels,
            self.settings.whitened_features,
        )
        return dataclasses.replace(self, backbone=backbone, bank=bank)

    def with_resting_block(self, progress: Progress) -> Views:
        """Return the same views, with those for the first epochs, in which the block rests."""
        assert self.bank is not None, "Settings refuses resting epochs with views that are drawn online"
        return dataclasses.replace(self, rested=rested_views(self.backbone, self.bank, self.n, progress))

    def batches(self, method: BaseMethod, training: TrainingSettings | None = None) -> BatchSource:
        """Return the source of training's batches, or of another training's on the same views."""
        if training is not None:
            return dataclasses.replace(self, settings=dataclasses.replace(self.settings, training=training)).batches(
                method
            )
        if self.rested is None:
            return self._batches(self.bank, method)
        rested, awake = (self._batches(bank, method) for bank in (self.rested, self.bank))
        return RestingFirst(rested, awake, self.settings.training.resting_epochs)

    def overview(self, epoch: int, progress: Progress | None = None) -> Overview:
        """Return what a method sees of all images before an epoch, or after the last one."""
        if self.rested is not None and epoch < self.settings.training.resting_epochs:
            features_nd = rested_features(self.backbone, self.rested)
        else:
            features_nd = self.centre_features(progress)
        labels_n, seed = torch.from_numpy(self.split.labels), derive(self.settings.seed, "overview", epoch)
        return Overview(features_nd, labels_n, epoch, seed, self.plain_nd)

    def _kept_centres(self, bank: Bank, image_n: Tensor, progress: Progress) -> Iterator[Tensor]:
        """Yield the features of kept centre views."""
        # In quick the tail is an adapter, not a block, and takes no time.
        shown = Progress() if self.settings.effort == "quick" else progress
        shown.start("last block", len(image_n))
        for image_b in torch.split(image_n, IMAGES_PER_LOOK):
            yield run_tail(self.backbone, bank.take(image_b, torch.zeros_like(image_b)))
            shown.advance(len(image_b))
        shown.finish()

    def _batches(self, bank: Bank | None, method: BaseMethod) -> BatchSource:
        split, chosen, seed = self.split, self.settings.views, self.settings.seed
        batch_size = self.settings.training.batch_size
        draw = partial(method.draw, drop_last=self.settings.training.drop_last)
        if bank is not None:
            return BankViews(bank, split.labels, chosen.recipe, batch_size=batch_size, seed=seed, draw=draw)
        assert split.images is not None
        return OnlineViews(
            split.images, split.labels, self.backbone, chosen, batch_size=batch_size, seed=seed,
            may_flip=split.may_flip, n_workers=choose_workers(self.settings.workers), draw=draw,
        )  # fmt: skip


def _kept(job: Job, *, cache: Path | None, progress: Progress) -> Bank | None:
    """Return the bank of the trunk's outputs from which training draws its views; None for views drawn online."""
    split, backbone, chosen = job.split, job.backbone, job.settings.views
    if split.features_nvd is not None:
        features_nvd = torch.from_numpy(split.features_nvd)
        if features_nvd.shape[1] == 1:
            generator = torch_generator(job.settings.seed, "feature views")
            features_nvd = feature_views(features_nvd[:, 0], 1 + (chosen.n_kept or 2), generator)
        return MemoryBank(backbone.trunk(features_nvd.to(device_of(backbone))))
    if job.plan is None:
        return None
    n_workers = choose_workers(job.settings.workers)
    bank = view_bank(job.plan, cache=cache, n_workers=n_workers, progress=progress)
    if len(chosen.sizes) == 1:
        return bank
    cells = cells_of_sizes(backbone)
    return MapLookBank(bank, len(cells), cells) if cells else LookBank(bank, len(chosen.sizes))


def whitened_views(
    backbone: Backbone, bank: Bank | None, features_nd: Tensor, labels: NDArray[np.int64], n_directions: int
) -> tuple[Backbone, Bank | None]:
    """Return the backbone that gives whitened features, and the views as it sees them, if there are kept ones."""
    n, n_features = features_nd.shape
    n_directions = min(n_directions, n, n_features)
    mean_d, map_de = whitening(features_nd.cpu(), labels, n_directions)
    result = whitened(backbone, n_directions)
    features = whitening_part(result)
    features.mean_d, features.map_de = mean_d.float(), map_de.float()
    move(result, features_nd.device, backbone.trunk.precision)
    if (compiled := backbone.trunk.compiled) is not None:
        result.trunk.compiled = compiled.around(result.trunk.network)
    if bank is None or features in result.tail.modules():
        return result, bank
    return result, mapped_views(bank, n, lambda hidden_bd: features.whiten(hidden_bd.to(features.map_de.device)))


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
