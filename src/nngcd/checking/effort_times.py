"""Estimates of how long a fit takes on this machine, from a few measured images and steps."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

import torch

from nngcd.backbones.backbone import Backbone
from nngcd.backbones.choosing import measured_gflop_per_second, networks
from nngcd.backbones.engines import choose_engine
from nngcd.backbones.hub_cache import is_cached
from nngcd.checking.check import CheckReport
from nngcd.core.cores import n_cores
from nngcd.core.device import choose_device, choose_precision, choose_workers
from nngcd.core.errors import ResourceError
from nngcd.core.words import count, duration
from nngcd.data.split import Split
from nngcd.methods.contract import Moment, Overview
from nngcd.settings import Settings, resolve
from nngcd.training.extraction import run_tail, run_trunk
from nngcd.training.learner import Learner
from nngcd.training.model import Blueprint, Model, build_backbone, move
from nngcd.views.loading import ViewDataset

N_READ, N_VIEWS, N_STEP = 8, 8, 32
"""Images to read, views to pass through the trunk, images per training step: enough for a quick estimate."""
LONG = 1.0
CATEGORIES_PER_KNOWN = 2
"""Sets only the size of the head that is timed, which hardly matters."""


def with_times(
    report: CheckReport, *, backbone: str | None = None, image_size: int | None = None, device: str = "auto"
) -> CheckReport:
    """Return the report with the estimated seconds of a fit by effort; without them if the backbone does not load."""
    if report.split is None or report.split.images is None:
        return report
    named = {"backbone": backbone, "image_size": image_size}
    chosen = {"device": device} | {name: value for name, value in named.items() if value}
    try:
        efforts = {effort: resolve({"effort": effort, **chosen}) for effort in ("quick", "normal", "full")}
        costs = {effort: _costs(report.split, settings) for effort, settings in efforts.items()}
    except ResourceError as error:
        return dataclasses.replace(report, timing=f"the time could not be estimated: {error}")
    seconds = {
        effort: len(report.split) * _seconds(costs[effort], settings, resting_step=costs["quick"].step)
        for effort, settings in efforts.items()
    }
    where = f"{count(n_cores(), 'core')}, {choose_device(device).type}, at the current load"
    how = f"rough: measured with {where}; excludes estimating the number of categories"
    others = _with_other_networks(len(report.split), but=efforts["quick"].backbone, device=choose_device(device))
    return dataclasses.replace(report, seconds=seconds, timing=how, other_networks=others)


def fit_seconds(split: Split, settings: Settings) -> float:
    """Return the estimated seconds of a fit whose block never rests, at the current load of this machine."""
    return len(split) * _seconds(_costs(split, settings), settings, resting_step=0.0)


def _with_other_networks(n_images: int, *, but: str, device: torch.device) -> tuple[str, ...]:
    """Return a line each for the transformers that could be used instead, with the time their features would take."""
    speed = measured_gflop_per_second(device)
    return tuple(
        f"With {network.title} ({network.licence}, {network.megabytes} MB"
        f"{', in the cache' if is_cached(network.name) else ' to download'}): quick about "
        f"{duration(n_images * network.seconds_per_image(speed))}; --backbone {network.name} "
        f"--image-size {network.image_size}"
        for network in networks(device)[:2]
        if network.name != but
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Costs:
    """Seconds per image."""

    read: float
    """To read an image and make a view of it."""
    trunk: float
    """One view in the frozen trunk."""
    step: float
    """One training step."""


def _seconds(costs: Costs, settings: Settings, *, resting_step: float) -> float:
    """Return the seconds of a whole fit per image: views are made once, or in every epoch."""
    epochs, n_kept = settings.training.epochs, settings.views.n_kept
    if n_kept is None:
        return epochs * (costs.read + 2 * costs.trunk + costs.step)
    n_resting = settings.training.resting_epochs
    steps = (epochs - n_resting) * costs.step + n_resting * resting_step
    return costs.read + (1 + n_kept) * costs.trunk + steps


def _costs(split: Split, settings: Settings) -> Costs:
    device = choose_device(settings.device)
    # Every category needs an image in the timed step.
    n_old = min(split.n_old, N_STEP // 2)
    blueprint = Blueprint(
        backbone=settings.backbone, effort=settings.effort, tail_blocks=settings.tail_blocks,
        image_size=settings.image_size or split.image_size, method=settings.method,
        loss=dataclasses.asdict(settings.loss), n_features=None,
        n_clusters=max(10, CATEGORIES_PER_KNOWN * n_old), n_old=n_old,
        whitened_features=settings.whitened_features, sizes=settings.views.sizes, tail_norm=settings.tail_norm,
    )  # fmt: skip
    backbone = move(build_backbone(blueprint), device, choose_precision(settings.precision, device))
    choose_engine(settings.engine, backbone, n_images=len(split))
    model = Model.assemble(blueprint, backbone, seed=0)
    return Costs(_read_seconds(split, backbone), _trunk_seconds(backbone), _step_seconds(model))


def _read_seconds(split: Split, backbone: Backbone) -> float:
    """Return the seconds to read an image and make its views, by all readers together."""
    assert split.images is not None
    rows = torch.linspace(0, len(split) - 1, min(N_READ, len(split))).long().tolist()
    dataset = ViewDataset(
        split.images, backbone.preprocessing, seed=0, n_random=2, may_flip=split.may_flip, purpose="timing"
    )
    return _timed(lambda: [dataset[row] for row in rows]) / len(rows) / max(1, choose_workers(None))


def _trunk_seconds(backbone: Backbone) -> float:
    """Return the seconds of one view in the frozen trunk."""
    side = backbone.preprocessing.image_size
    views = torch.zeros(N_VIEWS, 3, side, side, dtype=torch.uint8)
    return _timed(lambda: run_trunk(backbone, views).cpu()) / N_VIEWS


def _step_seconds(model: Model) -> float:
    """Return the seconds of a training step per image."""
    if not model.method.trains:
        return 0.0
    side = model.backbone.preprocessing.image_size
    hidden = run_trunk(model.backbone, torch.zeros(1, 3, side, side, dtype=torch.uint8))
    hidden_vb = hidden[None].expand(2, N_STEP, *hidden.shape[1:]) + torch.rand(2, N_STEP, *[1] * (hidden.ndim - 1)).to(
        hidden.device
    )
    image_b = torch.arange(N_STEP, device=hidden.device)
    is_labelled_b = image_b % 2 == 0 if model.blueprint.n_old else image_b < 0
    labels_b = torch.where(is_labelled_b, image_b // 2 % max(model.blueprint.n_old, 1), -1)
    if model.method.looks_before(0, 1):
        model.method.look(Overview(run_tail(model.backbone, hidden_vb[0]), labels_b.cpu(), 0, 0))
    learner = Learner(model.backbone.tail, model.method)

    def step() -> None:
        terms = learner(hidden_vb, labels_b, image_b, N_STEP, Moment(0, 1, 0, 1))
        torch.autograd.backward(torch.stack(list(terms.values())).sum())
        if hidden.is_cuda:
            # GPU calls return at once; without waiting, only the launch would be timed.
            torch.cuda.synchronize(hidden.device)

    return _timed(step) / N_STEP


def _timed(call: Callable[[], object]) -> float:
    """Return the seconds of a second call, since the first includes set-up; of the first call if it takes long."""
    for _ in range(2):
        started = time.perf_counter()
        call()
        seconds = time.perf_counter() - started
        if seconds > LONG:
            break
    return seconds
