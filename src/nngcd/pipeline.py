"""The whole story: images → views → trunk → tail → heads → losses → training → assignment → run folder."""

from __future__ import annotations

import dataclasses
import logging
import shutil
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from lightning_fabric import Fabric
from torch import Tensor

from nngcd import run_files
from nngcd.core.device import choose_device, choose_precision, choose_workers
from nngcd.core.errors import ConfigError, DataError, NngcdWarning
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder
from nngcd.core.seeds import torch_generator
from nngcd.datasets.split import Split, Truth
from nngcd.losses.sparse import warn_if_unbounded
from nngcd.results import name_clusters
from nngcd.settings import Settings
from nngcd.training.extraction import cached_hidden, centre_features, run_tail
from nngcd.training.learner import Learner
from nngcd.training.loop import train
from nngcd.training.model import Blueprint, Model
from nngcd.training.sources import CachedViews, OnlineViews, Source
from nngcd.views import feature_views

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Job:
    """Data, settings and model that fit together: checked, and ready for the long work."""

    split: Split
    settings: Settings
    model: Model


@dataclass(frozen=True, slots=True)
class Fitted:
    """What fitting gives: the model, the category id of each cluster, and each image's feature and scores."""

    model: Model
    categories: list[str]
    features_nd: Tensor
    scores_nk: Tensor


def prepare(split: Split, settings: Settings) -> Job:
    """Return the job, with everything that can be wrong about it found now, before anything is written.

    Raises:
        UserError: the number of categories, the backbone, its weights or the device cannot be used.
    """
    settings = dataclasses.replace(settings, k=number_of_clusters(split, settings))
    weights = Path(settings.weights) if settings.weights else None
    device = choose_device(settings.device)
    choose_precision(settings.precision, device)
    return Job(
        split, settings, Model.build(_blueprint(split, settings), seed=settings.seed, weights=weights).to(device)
    )


def discover(job: Job, truth: Truth | None, run: RunFolder, *, cache: Path | None, progress: Progress) -> None:
    """Fit, write everything into the run folder, and score when the truth is known. A killed run can be resumed."""
    started = time.perf_counter()
    split, settings = job.split, job.settings
    _LOG.info("%s: %d images, %d labelled in %d classes", split.name, len(split), split.n_labelled, split.n_old)
    run_files.write_inputs(run, split, settings)
    fitted = fit_job(job, run=run, cache=cache, progress=progress)
    run_files.write_outputs(run, split, fitted.model, fitted.categories, fitted.features_nd, fitted.scores_nk)
    run_files.write_summary(run, split, truth, settings, fitted.scores_nk, time.perf_counter() - started)
    shutil.rmtree(run.checkpoint.parent, ignore_errors=True)
    _LOG.info("complete after %.1f s", time.perf_counter() - started)


def fit(
    split: Split,
    settings: Settings,
    *,
    run: RunFolder | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Fitted:
    """Put every image of the split into a category. Only what training may know comes in: there is no `Truth` here."""
    return fit_job(prepare(split, settings), run=run, cache=cache, progress=progress or Progress())


def fit_job(job: Job, *, run: RunFolder | None, cache: Path | None, progress: Progress) -> Fitted:
    """Tell the story: views through the trunk, training of tail and method, features, assignment, names."""
    split, settings, model = job.split, job.settings, job.model
    device = model.device
    _LOG.info("K = %d, method %s, backbone %s, device %s", settings.k, settings.method, model.backbone.name, device)

    hidden_nv = _cached_views(job, cache, progress)
    if model.method.trains:
        fabric = Fabric(accelerator=device.type, devices=1, precision=choose_precision(settings.precision, device))
        if model.method.starts_from_features:
            model.method.start(_features(job, hidden_nv, progress), torch.from_numpy(split.labels))
        learner = _learner(job)
        train(learner, _source(job, hidden_nv), settings.training, fabric=fabric, run=run, progress=progress)

    features_nd = _features(job, hidden_nv, progress)
    model.method.settle(features_nd, torch.from_numpy(split.labels))
    scores_nk = model.scores(features_nd).cpu()
    categories = name_clusters(scores_nk.argmax(-1).numpy(), split, model.blueprint.n_clusters)
    return Fitted(model, categories, features_nd.cpu(), scores_nk)


def number_of_clusters(split: Split, settings: Settings) -> int:
    """Return K, checked against the data."""
    if split.n_unlabelled == 0:
        raise DataError(f"D06: all {len(split):,} images are labelled; nothing to sort. Add images without a label.")
    if split.n_labelled == 0:
        text = "D05: no labels: grouping only. Accuracy cannot be measured; naming a few categories helps a lot."
        warnings.warn(text, NngcdWarning, stacklevel=2)
    k = settings.k or split.n_classes
    if k is None:
        raise ConfigError("k", None, "say how many categories there are, known and new together, for example --k 30")
    if k < split.n_old:
        raise ConfigError(
            "k", k, f"{split.n_old} categories are labelled; K counts known and new, so it cannot be less"
        )
    if k > len(split):
        raise ConfigError("k", k, f"there are only {len(split)} images")
    return k


def _blueprint(split: Split, settings: Settings) -> Blueprint:
    return Blueprint(
        backbone=settings.backbone,
        effort=settings.effort,
        tail_blocks=settings.tail_blocks,
        image_size=settings.image_size or split.image_size,
        method=settings.method,
        loss=dataclasses.asdict(settings.loss),
        n_features=split.features_nvd.shape[-1] if split.features_nvd is not None else None,
        n_clusters=settings.k or 0,
        n_old=split.n_old,
    )


def _cached_views(job: Job, cache: Path | None, progress: Progress) -> Tensor | None:
    """Return hidden states of a few views per image where the trunk is the whole network (effort quick), else None."""
    split, settings, model = job.split, job.settings, job.model
    n_random = settings.views.n_random
    if split.features_nvd is not None:
        features_nvd = torch.from_numpy(split.features_nvd)
        if features_nvd.shape[1] == 1:
            generator = torch_generator(settings.seed, "feature views")
            features_nvd = feature_views(features_nvd[:, 0], 1 + n_random, generator)
        hidden_nv: Tensor = model.backbone.trunk(features_nvd.to(model.device))
        return hidden_nv
    if settings.effort != "quick":
        return None
    n_workers = choose_workers(settings.workers)
    return cached_hidden(model.backbone, split, n_random=n_random, n_workers=n_workers, cache=cache, progress=progress)


def _learner(job: Job) -> Learner:
    backbone, chosen = job.model.backbone, job.settings.training.tail_learning_rate
    rate = backbone.tail_learning_rate if chosen is None else chosen
    return Learner(backbone.tail, job.model.method, tail_learning_rate=rate)


def _source(job: Job, hidden_nv: Tensor | None) -> Source:
    split, settings = job.split, job.settings
    _warn_if_unbounded(settings)
    recipe, batch_size, seed = settings.views.recipe, settings.training.batch_size, settings.seed
    if hidden_nv is not None:
        return CachedViews(hidden_nv, split.labels, recipe, batch_size=batch_size, seed=seed)
    assert split.images is not None
    return OnlineViews(
        split.images, split.labels, job.model.backbone, recipe, batch_size=batch_size, seed=seed,
        may_flip=split.may_flip, n_workers=choose_workers(settings.workers),
    )  # fmt: skip


def _features(job: Job, hidden_nv: Tensor | None, progress: Progress) -> Tensor:
    """Return the trained features of every image's centre view."""
    backbone = job.model.backbone
    if hidden_nv is not None:
        return run_tail(backbone, hidden_nv[:, 0])
    assert job.split.images is not None
    n_workers = choose_workers(job.settings.workers)
    return torch.cat(list(centre_features(backbone, job.split.images, n_workers=n_workers, progress=progress)))


def _warn_if_unbounded(settings: Settings) -> None:
    """Warn when the printed form of the sparse regulariser can make weights grow without bound."""
    loss = settings.loss
    if getattr(loss, "sparse_weight", 0) > 0:
        warn_if_unbounded(
            settings.training.weight_decay, loss.sparse_weight, loss.sparse_l1_share, loss.sparse_frobenius
        )
