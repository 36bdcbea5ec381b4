"""The whole story: images → views → trunk → tail → heads → losses → training → assignment → run folder."""

from __future__ import annotations

import dataclasses
import logging
import time
from functools import partial
from pathlib import Path
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd import run_files
from nngcd.calibrating import PlainClusters, calibrate
from nngcd.choosing_k import estimated_k
from nngcd.clustering.estimate_k import KEstimate
from nngcd.clustering.whitening import main_directions
from nngcd.core import digests, processes
from nngcd.core.device import choose_workers
from nngcd.core.memory import forget_peak
from nngcd.core.progress import Progress
from nngcd.core.reading import damaged_file
from nngcd.core.run_folder import RunFolder
from nngcd.core.seeds import derive
from nngcd.datasets.split import Split, Truth
from nngcd.job import Job, centre_view_features, kept_views, prepare
from nngcd.losses.sparse import warn_if_unbounded
from nngcd.methods.contract import BaseMethod, Overview
from nngcd.results import Fitted, name_clusters, new_prefix, with_decisions
from nngcd.settings import Settings
from nngcd.training.bank import Bank, MemoryBank
from nngcd.training.checkpoint import epochs_done
from nngcd.training.learner import Learner
from nngcd.training.loop import train
from nngcd.training.model import Model, device_of
from nngcd.training.resting import RestingFirst, rested_features, rested_views
from nngcd.training.sources import BankViews, OnlineViews, Source
from nngcd.training.whitened_views import whitened_views

_LOG = logging.getLogger(__name__)


def discover(job: Job, truth: Truth | None, run: RunFolder, *, cache: Path | None, progress: Progress) -> None:
    """Fit, write everything into the run folder, and score when the truth is known. A killed run can be resumed.

    Of several processes the first one writes.
    """
    if processes.from_first(run.is_complete):  # another process completed it while this one read the data
        return
    # What earlier parts of an interrupted run trained counts, too.
    started = time.perf_counter() - sum(epoch.get("seconds", 0) for epoch in run.read_metrics())
    forget_peak()
    split, settings = job.given, job.settings
    _LOG.info("%s: %d images, %d labelled in %d classes", split.name, len(split), split.n_labelled, split.n_old)
    if processes.is_first():
        run_files.write_inputs(run, split, job.is_held_back, settings, engine=job.backbone.trunk.engine_facts)
    fitted = fit_job(job, run=run, cache=cache, progress=progress)
    if not processes.is_first():
        return
    facts = run_files.write_outputs(run, split, fitted)
    seconds = time.perf_counter() - started
    run_files.write_summary(
        run, split, truth, settings, fitted, facts=facts, is_held_back=job.is_held_back, seconds=seconds
    )
    run.remove_litter()
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
    _warn_if_unbounded(settings)
    bank = kept_views(job, cache=cache, progress=progress)

    rested: MemoryBank | None = None

    def overview(epoch: int, shown: Progress | None = None) -> Overview:
        if rested is not None and epoch < settings.training.resting_epochs:
            features_nd = rested_features(job.backbone, rested)
        else:
            # A look during training is a part of its epoch: shown, it would take over training's bar.
            features_nd = centre_view_features(job, bank, shown or Progress())
        labels_n = torch.from_numpy(split.labels)
        return Overview(features_nd, labels_n, epoch, derive(settings.seed, "overview", epoch), plain_nd)

    k, estimate = number_of_categories(job, bank, run=run, progress=progress)
    plain_nd = _plain_features(job, bank, progress)
    if settings.whitened_features:
        # No name is given to the features as they were: they are several times larger, and would stay until the end.
        backbone, bank = whitened_views(
            job.backbone, bank, centre_view_features(job, bank, progress), split.labels, settings.whitened_features
        )
        blueprint = dataclasses.replace(job.blueprint, whitened_features=backbone.n_features)
        job = dataclasses.replace(job, backbone=backbone, blueprint=blueprint)
    _LOG.info("K = %d, method %s, backbone %s, device %s", k, settings.method, job.backbone.name, device)
    blueprint = dataclasses.replace(job.blueprint, n_clusters=k)
    model = Model.assemble(blueprint, job.backbone, seed=settings.seed, k_range=moves_range(estimate))
    if job.start:
        job.start.load_method(model.method)
    plain = PlainClusters.of(centre_view_features(job, bank, Progress()), k, seed=settings.seed)
    if model.method.trains:
        source, learner = _source(job, bank, model.method), _learner(model, settings)
        if learner.resting_epochs > (epochs_done(run.checkpoint, settings.training.epochs) if run else 0):
            assert bank is not None, "Settings refuses resting epochs with views that are drawn online"
            rested = rested_views(job.backbone, bank, len(split), progress)
            source = RestingFirst(_source(job, rested, model.method), source, learner.resting_epochs)
        train(learner, source, settings.training, overview=overview, fabric=job.fabric, run=run, progress=progress)
        model = model.trimmed()

    last = overview(settings.training.epochs, progress)
    decided_n = model.method.settle(last)
    scores_nk = model.scores(last.features_nd).cpu()
    if decided_n is not None:
        scores_nk = with_decisions(scores_nk, decided_n.cpu())
    cluster_n, n_clusters = scores_nk.argmax(-1), scores_nk.shape[1]
    categories = name_clusters(cluster_n.numpy(), job.given, n_clusters, prefix=new_prefix(settings.reading.round))
    confidence = calibrate(
        scores_nk, last.features_nd, job.given.labels, job.is_held_back, n_old=split.n_old, unsure=_unsure(job),
        steadiness=plain.steadiness(cluster_n, max(k, n_clusters))[:n_clusters], seed=settings.seed,
    )  # fmt: skip
    return Fitted(model, categories, last.features_nd.cpu(), scores_nk, estimate, confidence)


def _plain_features(job: Job, bank: Bank | None, progress: Progress) -> Tensor | None:
    """Return the images as the pre-trained network sees them, for methods that count labelled images, or None."""
    if not getattr(job.settings.loss, "split_epochs", 0):
        return None
    return F.normalize(main_directions(centre_view_features(job, bank, progress)), dim=-1).float()


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
    if run and estimate and not job.given.n_old <= estimate.k <= len(job.given):
        reason = f"k = {estimate.k}; {job.given.n_old} categories are labelled, and there are {len(job.given)} images"
        raise damaged_file(run.k, reason, "Remove it: the number is then estimated again")
    if estimate is None:
        features_nd, settings = centre_view_features(job, bank, progress), job.settings
        # With all labels: one number gives none of them away, and with a fifth less it is a good deal less certain.
        estimate = estimated_k(
            features_nd, job.given.labels, k_range=settings.k_range, seed=settings.seed, progress=progress
        )
        # Machines that round otherwise could count otherwise.
        estimate = cast(KEstimate, processes.from_first(estimate))
        if run and processes.is_first():
            run_files.write_estimate(run.path, estimate)
            digests.record(run.path, ["k.json"])
    return estimate.k, estimate


def moves_range(estimate: KEstimate | None) -> tuple[int, int] | None:
    """Return between which numbers splits and merges may change an estimated K; None for one that was given."""
    if estimate is None or estimate.method == "given":
        return None
    return min(estimate.low, estimate.k), max(estimate.high, estimate.k)


def _learner(model: Model, settings: Settings) -> Learner:
    chosen = settings.training.tail_learning_rate
    rate = model.backbone.tail_learning_rate if chosen is None else chosen
    # Features that the user brings have no block that could rest.
    resting = settings.training.resting_epochs if model.blueprint.n_features is None else 0
    return Learner(model.backbone.tail, model.method, tail_learning_rate=rate, resting_epochs=resting)


def _source(job: Job, bank: Bank | None, method: BaseMethod) -> Source:
    split, settings = job.split, job.settings
    chosen, batch_size, seed = settings.views, settings.training.batch_size, settings.seed
    draw = partial(method.draw, drop_last=settings.training.drop_last)
    if bank is not None:
        return BankViews(bank, split.labels, chosen.recipe, batch_size=batch_size, seed=seed, draw=draw)
    assert split.images is not None
    return OnlineViews(
        split.images, split.labels, job.backbone, chosen, batch_size=batch_size, seed=seed,
        may_flip=split.may_flip, n_workers=choose_workers(settings.workers), draw=draw,
    )  # fmt: skip


def _warn_if_unbounded(settings: Settings) -> None:
    """Warn when the printed form of the sparse regulariser can make weights grow without bound."""
    loss = settings.loss
    if getattr(loss, "sparse_weight", 0) > 0:
        warn_if_unbounded(
            settings.training.weight_decay, loss.sparse_weight, loss.sparse_l1_share, loss.sparse_frobenius
        )
