"""The whole story: images → views → trunk → tail → heads → losses → training → assignment → run folder."""

from __future__ import annotations

import dataclasses
import logging
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from torch import Tensor

from nngcd import run_files
from nngcd.backbones.backbone import Backbone
from nngcd.backbones.sizes import cells_of_sizes
from nngcd.choosing_k import estimated_k, given_k
from nngcd.clustering.estimate_k import KEstimate
from nngcd.confidence import calibrate
from nngcd.core import processes
from nngcd.core.components import find_component
from nngcd.core.device import choose_device, choose_precision, choose_workers
from nngcd.core.errors import ConfigError
from nngcd.core.memory import forget_peak
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder
from nngcd.core.seeds import derive, torch_generator
from nngcd.datasets.holding_back import hold_back, without_labels
from nngcd.datasets.split import Split, Truth
from nngcd.losses.sparse import warn_if_unbounded
from nngcd.methods.contract import BaseMethod, Overview
from nngcd.results import Fitted, name_clusters, with_decisions
from nngcd.settings import Settings
from nngcd.training.bank import Bank, LookBank, MapLookBank, MemoryBank
from nngcd.training.bank_writing import BankPlan, plan_bank, view_bank
from nngcd.training.extraction import centre_features, run_tail
from nngcd.training.launching import launch
from nngcd.training.learner import Learner
from nngcd.training.loop import train
from nngcd.training.model import Blueprint, Model, build_backbone, device_of, move
from nngcd.training.resting import RestingFirst, rested_features, rested_views
from nngcd.training.sources import BankViews, OnlineViews, Source
from nngcd.training.starting import Start
from nngcd.training.whitened_views import whitened_views
from nngcd.views import Config as ViewsConfig
from nngcd.views import feature_views

_LOG = logging.getLogger(__name__)
IMAGES_PER_LOOK = 1024


@dataclass(frozen=True, slots=True)
class Job:
    """Data, settings and backbone that fit together: checked, and ready for the long work."""

    split: Split
    """What training may know: held-back labels are taken out."""
    given: Split
    """The same images with all labels that were given."""
    is_held_back: NDArray[np.bool_]
    """(n,) which labels are kept from training."""
    settings: Settings
    blueprint: Blueprint
    backbone: Backbone
    k: int | None
    """The number of categories; None when it is to be estimated."""
    fabric: Fabric
    """What training runs on: this process, or several."""
    start: Start | None
    """The run that training goes on from, if any."""
    plan: BankPlan | None
    """Which views are kept; None when they are drawn online, or when the input is features."""


def prepare(split: Split, settings: Settings, *, only_centre: bool = False) -> Job:
    """Return the job, with everything that can be wrong about it found now, before anything is written.

    Args:
        split: the images or features, with all labels given.
        settings: the settings of the run.
        only_centre: whether no random views will be needed, as for methods that never train.

    Raises:
        UserError: the number of categories, the backbone, its weights, the device or the method cannot be used.
    """
    split.check_every_category_is_labelled()
    start = Start.of(RunFolder.open(Path(settings.init_from))) if settings.init_from else None
    k = given_k(split, settings) or (start.k_within(settings.k_range) if start else None)
    is_held_back = hold_back(split, share=settings.hold_back, seed=settings.seed)
    given, split = split, without_labels(split, is_held_back)
    device = choose_device(settings.device)
    precision = choose_precision(settings.precision, device)
    method = find_component("nngcd.methods", settings.method, "Method").Method
    method.check_machine()
    has_stages = method.stage is not BaseMethod.stage or settings.training.resting_share > 0
    fabric = launch(device, precision, has_stages=has_stages)
    blueprint = _blueprint(split, settings, k or 0)
    weights = Path(settings.weights) if settings.weights else None
    if method.cuts_network:
        _refuse_frozen_features(settings)
    if start:
        asked = dataclasses.replace(blueprint, whitened_features=settings.whitened_features)
        start.check(asked, split)
    started = start.model.backbone if start else None
    backbone = build_backbone(blueprint, weights=weights, start=started, seed=settings.seed)
    backbone = move(backbone, fabric.device, precision)
    plan = _plan(split, settings.views, backbone, only_centre=only_centre or not method.trains)
    if min(settings.training.batch_size, len(split)) < processes.count():
        reason = f"must be at least the number of processes, {processes.count()}"
        raise ConfigError("training.batch_size", settings.training.batch_size, reason)
    return Job(split, given, is_held_back, settings, blueprint, backbone, k, fabric, start, plan)


def _refuse_frozen_features(settings: Settings) -> None:
    """Raise `ConfigError` for what is made of frozen features, where a method has none."""
    sizes = list(settings.views.sizes)
    asked = {
        "whitened_features": settings.whitened_features,
        "views.sizes": sizes if len(sizes) > 1 else None,
        "training.resting_share": settings.training.resting_share,
    }
    for name, value in asked.items():
        if value:
            raise ConfigError(name, value, f"{settings.method} learns inside the network: it has no frozen features")


def _plan(split: Split, chosen: ViewsConfig, backbone: Backbone, *, only_centre: bool) -> BankPlan | None:
    if split.images is None or chosen.n_kept is None:
        return None
    n_random, is_strong = 0 if only_centre else chosen.n_kept, chosen.recipe == "strong+weak"
    return plan_bank(backbone, split, n_random=n_random, is_strong=is_strong, limit_gb=chosen.bank_gb)


def discover(job: Job, truth: Truth | None, run: RunFolder, *, cache: Path | None, progress: Progress) -> None:
    """Fit, write everything into the run folder, and score when the truth is known. A killed run can be resumed.

    Of several processes the first one writes.
    """
    # What earlier parts of an interrupted run trained counts, too.
    started = time.perf_counter() - sum(epoch["seconds"] for epoch in run.read_metrics())
    forget_peak()
    split, settings = job.given, job.settings
    _LOG.info("%s: %d images, %d labelled in %d classes", split.name, len(split), split.n_labelled, split.n_old)
    if processes.is_first():
        run_files.write_inputs(run, split, job.is_held_back, settings)
    fitted = fit_job(job, run=run, cache=cache, progress=progress)
    if not processes.is_first():
        return
    run_files.write_outputs(run, split, fitted)
    seconds = time.perf_counter() - started
    run_files.write_summary(run, split, truth, settings, fitted, is_held_back=job.is_held_back, seconds=seconds)
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
    """Tell the story: views through the trunk, K, training of tail and method, features, assignment, names."""
    split, settings, device = job.split, job.settings, device_of(job.backbone)
    bank = kept_views(job, cache=cache, progress=progress)

    rested: MemoryBank | None = None

    def overview(epoch: int, shown: Progress | None = None) -> Overview:
        if rested is not None and epoch < settings.training.resting_epochs:
            features_nd = rested_features(job.backbone, rested)
        else:
            # A look during training is a part of its epoch: shown, it would take over training's bar.
            features_nd = centre_view_features(job, bank, shown or Progress())
        labels_n = torch.from_numpy(split.labels)
        return Overview(features_nd, labels_n, epoch, derive(settings.seed, "overview", epoch))

    k, estimate = number_of_categories(job, bank, run=run, progress=progress)
    if settings.whitened_features:
        # No name is given to the features as they were: they are several times larger, and would stay until the end.
        backbone, bank = whitened_views(
            job.backbone, bank, centre_view_features(job, bank, progress), split.labels, settings.whitened_features
        )
        blueprint = dataclasses.replace(job.blueprint, whitened_features=backbone.n_features)
        job = dataclasses.replace(job, backbone=backbone, blueprint=blueprint)
    _LOG.info("K = %d, method %s, backbone %s, device %s", k, settings.method, job.backbone.name, device)
    model = Model.assemble(dataclasses.replace(job.blueprint, n_clusters=k), job.backbone, seed=settings.seed)
    if job.start:
        job.start.load_method(model.method)
    if model.method.trains:
        source, learner = _source(job, bank), _learner(model, settings)
        if learner.resting_epochs:
            assert bank is not None, "Settings refuses resting epochs with views that are drawn online"
            rested = rested_views(job.backbone, bank, len(split), progress)
            source = RestingFirst(_source(job, rested), source, learner.resting_epochs)
        train(learner, source, settings.training, overview=overview, fabric=job.fabric, run=run, progress=progress)

    last = overview(settings.training.epochs, progress)
    decided_n = model.method.settle(last)
    scores_nk = model.scores(last.features_nd).cpu()
    if decided_n is not None:
        scores_nk = with_decisions(scores_nk, decided_n.cpu())
    categories = name_clusters(scores_nk.argmax(-1).numpy(), job.given, k)
    confidence = calibrate(scores_nk, job.given.labels, job.is_held_back, n_old=split.n_old, unsure=_unsure(job))
    return Fitted(model, categories, last.features_nd.cpu(), scores_nk, estimate, confidence)


def _unsure(job: Job) -> float:
    """Return the share of images to call unsure: none of a benchmark's, whose protocol sorts every image."""
    return job.settings.unsure if job.given.n_classes is None else 0.0


def number_of_categories(
    job: Job, bank: Bank | None, *, run: RunFolder | None, progress: Progress
) -> tuple[int, KEstimate | None]:
    """Return K, and how it was estimated unless it was given. A resumed run keeps the estimate it began with."""
    if job.k is not None:
        return job.k, None
    estimate = run_files.read_estimate(run) if run and run.k.is_file() else None
    if estimate is None:
        features_nd, settings = centre_view_features(job, bank, progress), job.settings
        # With all labels: one number gives none of them away, and with a fifth less it is a good deal less certain.
        estimate = estimated_k(
            features_nd, job.given.labels, k_range=settings.k_range, seed=settings.seed, progress=progress
        )
        if run and processes.is_first():
            run_files.write_estimate(run.path, estimate)
    return estimate.k, estimate


def _blueprint(split: Split, settings: Settings, k: int) -> Blueprint:
    return Blueprint(
        backbone=settings.backbone,
        effort=settings.effort,
        tail_blocks=settings.tail_blocks,
        image_size=settings.image_size or split.image_size,
        method=settings.method,
        loss=dataclasses.asdict(settings.loss),
        n_features=split.features_nvd.shape[-1] if split.features_nvd is not None else None,
        n_clusters=k,
        n_old=split.n_old,
        sizes=settings.views.sizes if split.features_nvd is None else (1.0,),
    )


def kept_views(job: Job, *, cache: Path | None, progress: Progress) -> Bank | None:
    """Return the bank of hidden states that training draws its views from; None when it draws new views online."""
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


def _learner(model: Model, settings: Settings) -> Learner:
    chosen = settings.training.tail_learning_rate
    rate = model.backbone.tail_learning_rate if chosen is None else chosen
    # Features that the user brings have no block that could rest.
    resting = settings.training.resting_epochs if model.blueprint.n_features is None else 0
    return Learner(model.backbone.tail, model.method, tail_learning_rate=rate, resting_epochs=resting)


def _source(job: Job, bank: Bank | None) -> Source:
    split, settings = job.split, job.settings
    _warn_if_unbounded(settings)
    recipe, batch_size, seed = settings.views.recipe, settings.training.batch_size, settings.seed
    if bank is not None:
        return BankViews(bank, split.labels, recipe, batch_size=batch_size, seed=seed)
    assert split.images is not None
    return OnlineViews(
        split.images, split.labels, job.backbone, recipe, batch_size=batch_size, seed=seed,
        may_flip=split.may_flip, n_workers=choose_workers(settings.workers),
    )  # fmt: skip


def centre_view_features(job: Job, bank: Bank | None, progress: Progress) -> Tensor:
    """Return the features of every image's centre view, as the tail gives them now."""
    backbone, n = job.backbone, len(job.split)
    own = processes.share(n)
    if bank is not None:
        return processes.gather(torch.cat(list(_kept_centres(job, bank, torch.arange(n)[own], progress))), n)
    assert job.split.images is not None
    n_workers = choose_workers(job.settings.workers)
    features = centre_features(backbone, job.split.images, rows=own, n_workers=n_workers, progress=progress)
    return processes.gather(torch.cat(list(features)), n)


def _kept_centres(job: Job, bank: Bank, image_n: Tensor, progress: Progress) -> Iterator[Tensor]:
    """Yield the features of kept centre views."""
    # Without a block the tail is an adapter, and that takes no time.
    shown = Progress() if job.settings.effort == "quick" else progress
    shown.start("last block", len(image_n))
    for image_b in torch.split(image_n, IMAGES_PER_LOOK):
        yield run_tail(job.backbone, bank.take(image_b, torch.zeros_like(image_b)))
        shown.advance(len(image_b))
    shown.finish()


def _warn_if_unbounded(settings: Settings) -> None:
    """Warn when the printed form of the sparse regulariser can make weights grow without bound."""
    loss = settings.loss
    if getattr(loss, "sparse_weight", 0) > 0:
        warn_if_unbounded(
            settings.training.weight_decay, loss.sparse_weight, loss.sparse_l1_share, loss.sparse_frobenius
        )
