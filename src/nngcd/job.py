"""A job: data, settings and backbone that fit together, and the views of the data as the backbone sees them."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nngcd.backbones.backbone import Backbone
from nngcd.backbones.engines import choose_engine
from nngcd.backbones.sizes import cells_of_sizes
from nngcd.choosing_k import given_k
from nngcd.core import processes
from nngcd.core.components import find_component
from nngcd.core.device import choose_device, choose_precision, choose_workers
from nngcd.core.errors import ConfigError
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder
from nngcd.core.seeds import torch_generator
from nngcd.datasets.holding_back import hold_back, without_labels
from nngcd.datasets.split import Split
from nngcd.methods.contract import BaseMethod
from nngcd.settings import Settings, flat_settings, resolve
from nngcd.training.bank import Bank, LookBank, MapLookBank, MemoryBank
from nngcd.training.bank_plan import BankPlan, plan_bank
from nngcd.training.bank_writing import view_bank
from nngcd.training.extraction import centre_features, run_tail
from nngcd.training.launching import launch
from nngcd.training.model import Blueprint, build_backbone, device_of, move
from nngcd.training.starting import Start
from nngcd.views import Config as ViewsConfig
from nngcd.views import feature_views

if TYPE_CHECKING:
    from lightning_fabric import Fabric

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
    if not only_centre:
        check_start(settings)
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
    # After the plan, which passes a single image: compiling waits until features are really computed.
    choose_engine(settings.engine, backbone, n_images=len(split))
    if min(settings.training.batch_size, len(split)) < processes.count():
        reason = f"must be at least the number of processes, {processes.count()}"
        raise ConfigError("training.batch_size", settings.training.batch_size, reason)
    return Job(split, given, is_held_back, settings, blueprint, backbone, k, fabric, start, plan)


def check_start(settings: Settings) -> None:
    """Raise `ConfigError` when the method must begin with a trained run and none is named."""
    first = find_component("nngcd.methods", settings.method, "Method").Method.starts_from(settings.loss)
    if first is None or settings.init_from:
        return
    fit = shlex.join(["nngcd", "fit", settings.data or "DATA"])
    train_first = f"{fit} --method {first} {_flags(settings, first)} --out RUN"
    start_from_it = f"{fit} --method {settings.method} {_flags(settings, settings.method)} --init-from RUN"
    raise ConfigError(
        "init_from",
        None,
        f"{settings.method} begins with a network that {first} has trained. Train it, then start from it:\n"
        f"  {train_first}\n  {start_from_it}",
    )


def _flags(settings: Settings, method: str) -> str:
    """Return the flags that give a method these settings, as far as it has them."""
    named = {
        "dataset": settings.dataset if settings.dataset != settings.data else None,
        "k": settings.k,
        "preset": settings.preset,
        "effort": settings.effort,
        "backbone": settings.backbone,
        "weights": settings.weights,
        "image_size": settings.image_size,
        "seed": settings.seed or None,
    }
    given = {name: value for name, value in named.items() if value is not None}
    plain, own = (
        flat_settings(resolve({"data": settings.data, "method": m, **given})) for m in (settings.method, method)
    )
    changed = {name: value for name, value in flat_settings(settings).items() if name in own and value != plain[name]}
    flags = [part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    return shlex.join(
        [*flags, *(part for name, value in changed.items() for part in ("--set", f"{name}={_yaml(value)}"))]
    )


def _yaml(value: object) -> str:
    """Return a value as `--set` reads it; plain words need no quotes."""
    return value if isinstance(value, str) and value.replace("_", "").isalnum() else json.dumps(value)


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


def _blueprint(split: Split, settings: Settings, k: int) -> Blueprint:
    return Blueprint(
        backbone=settings.backbone,
        effort=settings.effort,
        tail_blocks=settings.tail_blocks,
        tail_norm=settings.tail_norm,
        image_size=settings.image_size or split.image_size,
        method=settings.method,
        loss=dataclasses.asdict(settings.loss),
        n_features=split.features_nvd.shape[-1] if split.features_nvd is not None else None,
        n_clusters=k,
        n_old=split.n_old,
        sizes=settings.views.sizes if split.features_nvd is None else (1.0,),
    )


def _plan(split: Split, chosen: ViewsConfig, backbone: Backbone, *, only_centre: bool) -> BankPlan | None:
    if split.images is None or chosen.n_kept is None:
        return None
    n_random = 0 if only_centre else chosen.n_kept
    return plan_bank(backbone, split, n_random=n_random, augmentation=chosen.kind, limit_gb=chosen.bank_gb)


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
