"""A job: data, settings and backbone that fit together, checked before the long work begins."""

from __future__ import annotations

import atexit
import dataclasses
import json
import logging
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from nngcd.backbones.backbone import Backbone
from nngcd.backbones.engines import choose_engine
from nngcd.core import processes
from nngcd.core.components import find_component
from nngcd.core.cores import launched_number
from nngcd.core.device import Precision, choose_device, choose_precision
from nngcd.core.errors import ConfigError, warn
from nngcd.core.run_folder import RunFolder
from nngcd.counting.choosing import given_k
from nngcd.data.holding_back import hold_back, without_labels
from nngcd.data.shrinking import Shrinker
from nngcd.data.split import Split
from nngcd.losses.sparse import warn_if_unbounded
from nngcd.methods.contract import BaseMethod
from nngcd.settings import Settings, flat_settings, resolve
from nngcd.training.bank_plan import BankPlan, plan_bank
from nngcd.training.eagc import check_guide
from nngcd.training.init_from import Start
from nngcd.training.model import Blueprint, build_backbone, move
from nngcd.views.preprocessing import ViewSettings

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(frozen=True, slots=True)
class Job:
    """Data, settings and backbone that fit together: checked, and ready for the long work."""

    split: Split
    """The data that training sees, without held-back labels."""
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
    """Resources for training: this process, or several."""
    start: Start | None
    """The run that training goes on from, if any."""
    plan: BankPlan | None
    """Which views are kept; None when they are drawn online, or when the input is features."""

    @property
    def unsure(self) -> float:
        """The share of images to call unsure: none of a benchmark's, whose protocol sorts every image."""
        return self.settings.unsure if self.given.n_classes is None else 0.0

    def blueprint_of(self, k: int, backbone: Backbone) -> Blueprint:
        """Return what the model is built from, with this number of categories, on this backbone."""
        whitened = backbone.n_features if self.settings.whitened_features else self.blueprint.whitened_features
        return dataclasses.replace(self.blueprint, n_clusters=k, whitened_features=whitened)


def prepare(split: Split, settings: Settings, *, only_centre: bool = False, shrinker: Shrinker | None = None) -> Job:
    """Return the job, with everything that can be wrong about it found now, before anything is written.

    Args:
        split: the images or features, with all labels given.
        settings: the settings of the run.
        only_centre: whether no random views will be needed, as for methods that never train.
        shrinker: holds what was kept of large images when they were read.

    Raises:
        UserError: the number of categories, the backbone, its weights, the device or the method cannot be used.
    """
    if not only_centre:
        check_start(settings)
        _warn_if_unbounded(settings)
        _warn_if_unused(settings, split)
    split.check_every_category_is_labelled()
    start = Start.of(RunFolder.open(Path(settings.init_from))) if settings.init_from else None
    k = given_k(split, settings.k, settings.k_range) or (start.k_within(settings.k_range) if start else None)
    is_held_back = hold_back(split, share=settings.hold_back, seed=settings.seed)
    given, split = split, without_labels(split, is_held_back)
    device = choose_device(settings.device)
    precision = choose_precision(settings.precision, device)
    method = find_component("nngcd.methods", settings.method, "Method").Method
    method.check_machine()
    check_guide(settings.eagc, method, settings.method, int((split.labels >= 0).sum()))
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
    if shrinker and split.images is not None:
        split = dataclasses.replace(split, images=shrinker.before(split.images, backbone.preprocessing))
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
        f"{settings.method} starts from a network trained with {first}. Run:\n  {train_first}\n  {start_from_it}",
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
            raise ConfigError(
                name, value, f"{settings.method} trains inside the network and has no frozen features; leave it out"
            )


def launch(device: torch.device, precision: Precision, *, has_stages: bool = False) -> Fabric:
    """Return the Fabric that training runs on; of several processes, each gets its own device and meets the others.

    Methods with stages leave some of their modules without a gradient in some of them, which torch wants to know.
    """
    # Imported here: it takes seconds, in which the data can already be read.
    from lightning_fabric import Fabric
    from lightning_fabric.strategies.ddp import DDPStrategy

    if not processes.is_launched():
        return Fabric(accelerator=device.type, devices=1, precision=precision)
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it greets at length
    n_local = launched_number("LOCAL_WORLD_SIZE", 1)
    fabric = Fabric(
        accelerator=device.type,
        devices=n_local,
        num_nodes=processes.count() // n_local,
        strategy=DDPStrategy(find_unused_parameters=has_stages),
        precision=precision,
    )
    fabric.launch()
    atexit.register(processes.leave)
    return fabric


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


def _plan(split: Split, chosen: ViewSettings, backbone: Backbone, *, only_centre: bool) -> BankPlan | None:
    if split.images is None or chosen.n_kept is None:
        return None
    n_random = 0 if only_centre else chosen.n_kept
    return plan_bank(backbone, split, n_random=n_random, augmentation=chosen.kind, limit_gb=chosen.bank_gb)


def _warn_if_unused(settings: Settings, split: Split) -> None:
    usual = resolve({"method": settings.method, "preset": settings.preset, "effort": settings.effort})
    if split.images is None and settings.backbone != usual.backbone:
        warn(f"--backbone {settings.backbone} is not used: the data are features already.")


def _warn_if_unbounded(settings: Settings) -> None:
    """Warn when the printed form of the sparse regulariser can make weights grow without bound."""
    loss = settings.loss
    if getattr(loss, "sparse_weight", 0) > 0:
        warn_if_unbounded(
            settings.training.weight_decay, loss.sparse_weight, loss.sparse_l1_share, loss.sparse_frobenius
        )
