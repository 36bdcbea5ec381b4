"""The training loop: short, the same for every method, and resumable after any epoch."""

from __future__ import annotations

import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor

from nngcd.core import processes
from nngcd.core.errors import ResourceError, TrainingError
from nngcd.core.memory import is_out_of_memory
from nngcd.core.progress import Progress
from nngcd.core.ranges import AtLeastOne, Checked, NotNegative, Positive, Share, ShareBelowOne
from nngcd.core.run_folder import RunFolder
from nngcd.core.schedules import cosine_learning_rate
from nngcd.methods.contract import Moment, Overview
from nngcd.training.checkpoint import load_checkpoint, save_checkpoint
from nngcd.training.learner import Learner
from nngcd.training.sources import BatchSource

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingSettings(Checked):
    """Settings of training; the same for all methods unless a recipe changes them."""

    group = "training."
    epochs: AtLeastOne = 200
    """Number of epochs; each draws as many images as the data have, half labelled and half unlabelled."""
    resting_share: ShareBelowOne = 0.0
    """Share of the epochs, at the start, in which the backbone's block rests: only what follows it learns, on features
    that are computed once. Heads that have learned nothing yet would lead the block astray."""
    batch_size: AtLeastOne = 128
    """Images per step; each comes in two views."""
    learning_rate: Positive = 0.1
    """Learning rate of the heads at the start of its cosine schedule."""
    tail_learning_rate: NotNegative | None = None
    """Learning rate of the backbone's tail, as a fraction of the heads' rate; when absent, the backbone's default (0.1
    for CNNs, or 0.003 with whitened features)."""
    final_learning_rate: Share = 1e-3
    """Learning rate at the end of the schedule, as a fraction of its start."""
    tail_final_learning_rate: Share | None = None
    """End of the schedule of the backbone's tail, as a fraction of its own start; when absent, that of the heads."""
    momentum: ShareBelowOne = 0.9
    """Momentum of SGD."""
    weight_decay: NotNegative = 5e-5
    """Weight decay of the parameters that `decay` names."""
    decay: Literal["matrices", "all"] = "matrices"
    """Parameters that decay: matrices only (SimGCD, NN-GCD), or also biases and norm gains (GCD and its successors)."""
    drop_last: bool = True
    """Whether to drop a smaller last batch of an epoch."""
    pieces: AtLeastOne = 1
    """Number of pieces in which the tail processes a batch, to save memory; the loss stays that of the whole batch. A
    single process doubles it automatically when memory runs out."""
    compile: bool = False
    """Whether torch compiles the tail: takes minutes at the start, but gives faster steps on some GPUs."""

    @property
    def resting_epochs(self) -> int:
        """The epochs of `resting_share`, rounded down, but at least one where there is a share."""
        # 0.29 x 100 is a little less than 29.
        return max(int(self.resting_share * self.epochs + 1e-9), 1) if self.resting_share else 0


def train(  # noqa: PLR0913 (who learns, from what, how, seen by whom)
    learner: Learner,
    source: BatchSource,
    config: TrainingSettings,
    *,
    overview: Callable[[int], Overview],
    fabric: Fabric,
    run: RunFolder | None,
    progress: Progress,
) -> None:
    """Train the learner in place; with a run folder it logs and checkpoints each epoch and goes on where it stopped.

    `overview(epoch)` gives all images as the learner sees them now; it is asked for before the epochs for which the
    method wants it. Of several processes the first one writes.

    Raises:
        TrainingError: the loss is no longer finite; the checkpoint of the last complete epoch is kept.
    """
    groups = _groups(learner, config)
    optimiser = _optimiser(groups, config)
    first = load_checkpoint(run.checkpoint, learner, optimiser, config.epochs) if run else 0
    record = run if processes.is_first() else None
    if record:
        record.forget_metrics_from(first)
    learner.n_pieces = config.pieces
    if config.compile:
        learner.tail.compile()
    module, wrapped = fabric.setup(learner, optimiser, move_to_device=True)
    _LOG.info("training epochs %d to %d", first + 1, config.epochs)
    _begin_bar(progress, first, learner, config)
    for epoch in range(first, config.epochs):
        started = time.perf_counter(), time.process_time()
        if epoch == learner.resting_epochs > first:
            progress.finish()
            _begin_bar(progress, epoch, learner, config)
        if learner.method.looks_before(epoch, config.epochs):
            learner.method.look(overview(epoch))
        stage = learner.method.stage(epoch, config.epochs)
        for group, trained in zip(groups, optimiser.param_groups, strict=True):
            trained["lr"] = group.learning_rate(epoch - stage.start, len(stage), config.learning_rate)
        means = _train_epoch(module, wrapped, source, epoch, config.epochs, fabric)
        if record:
            record.append_metrics(_metrics_line(epoch, means, optimiser, started))
            save_checkpoint(record.checkpoint, learner, optimiser, epoch + 1)
        progress.advance(1, f"loss {means['loss']:.3f}")
    learner.finish()
    progress.finish()


def _begin_bar(progress: Progress, epoch: int, learner: Learner, config: TrainingSettings) -> None:
    """Begin the bar that an epoch belongs to: epochs in which the block rests tell nothing of how long others take."""
    resting = learner.resting_epochs
    if epoch < resting:
        progress.start("training heads", resting)
        progress.advance(epoch)
    else:
        progress.start("training block" if resting else "training", config.epochs - resting)
        progress.advance(epoch - resting)


def _train_epoch(
    module: Any, optimiser: Any, source: BatchSource, epoch: int, n_epochs: int, fabric: Fabric  # noqa: ANN401 (Fabric's wrappers)
) -> dict[str, float]:  # fmt: skip
    """Train one epoch and return the mean of each loss term."""
    sums: dict[str, float] = defaultdict(float)
    n_steps = source.n_batches
    for i, views in enumerate(source.batches(epoch)):
        moment = Moment(epoch, n_epochs, epoch * n_steps + i, n_epochs * n_steps)
        values = _find_gradients(module, optimiser, fabric.to_device(tuple(views)), moment, fabric)
        module.module.before_step(moment)
        for group in optimiser.param_groups:
            if "paced_from" in group:
                group["lr"] = group["paced_from"] * module.module.method.pace(moment)
        optimiser.step()
        module.module.after_step(moment)
        for name, value in values.items():
            sums[name] += value / n_steps
    return dict(sums)


def _find_gradients(
    module: Any, optimiser: Any, batch: tuple[Any, ...], moment: Moment, fabric: Fabric  # noqa: ANN401 (Fabric's wrappers)
) -> dict[str, float]:  # fmt: skip
    """Compute loss and gradients of a batch, in more pieces from now on if memory runs out, and return the terms."""
    learner: Learner = module.module
    while True:
        optimiser.zero_grad()
        try:
            terms: dict[str, Tensor] = module(*batch, moment)
            loss = torch.stack(list(terms.values())).sum()
            values = dict(zip([*terms, "loss"], torch.stack([*terms.values(), loss]).tolist(), strict=True))
            _stop_unless_finite(values, moment)
            fabric.backward(loss)
            return values
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            n_pieces = 2 * learner.n_pieces
            # Other processes wait for this one's part of the step, so it cannot be begun again.
            if processes.count() > 1 or n_pieces > batch[0].shape[:2].numel():
                raise ResourceError(
                    f"a batch of {batch[-1]} images does not fit into memory in {learner.n_pieces} pieces. Try --set "
                    f"training.pieces={n_pieces}, or fewer images: --set training.batch_size={max(1, batch[-1] // 2)}."
                ) from error
            learner.n_pieces = n_pieces
            _LOG.warning("memory ran out: the tail now takes a batch in %d pieces", n_pieces)
        torch.cuda.empty_cache()


def _stop_unless_finite(values: dict[str, float], moment: Moment) -> None:
    """Stop at the first non-finite loss. The authors' code replaces such values by 0 and so hides divergence."""
    if math.isfinite(values["loss"]):
        return
    bad = ", ".join(f"{name} = {value}" for name, value in values.items() if not math.isfinite(value))
    raise TrainingError(
        f"T05: the loss is no longer finite in epoch {moment.epoch + 1} ({bad}). The state before that epoch is kept. "
        "Try a smaller learning rate, for example --set training.learning_rate=0.03."
    )


class _ParameterGroup(NamedTuple):
    """Parameters that the optimiser treats alike."""

    parameters: list[torch.nn.Parameter]
    weight_decay: float
    rate: float
    """Their fraction of the learning rate."""
    end: float
    """Where their schedule ends, as a fraction of its start."""
    is_paced: bool
    """Whether the method says their rate, step by step."""

    def learning_rate(self, epoch: int, n_epochs: int, start: float) -> float:
        return cosine_learning_rate(epoch, n_epochs, start, self.end) * self.rate


def _groups(learner: Learner, config: TrainingSettings) -> list[_ParameterGroup]:
    """Return tail and heads, each with its own learning rate, as matrices and as vectors, which may not decay."""
    groups = []
    vector_decay = config.weight_decay if config.decay == "all" else 0.0
    for part in learner.parts():
        own_end = config.tail_final_learning_rate if part.is_tail else None
        end = config.final_learning_rate if own_end is None else own_end
        trained = [p for p in part.parameters if p.requires_grad]
        matrices, vectors = [p for p in trained if p.ndim >= 2], [p for p in trained if p.ndim < 2]
        decays = (0.0, 0.0) if part.is_paced else (config.weight_decay, vector_decay)
        for parameters, decay in zip((matrices, vectors), decays, strict=True):
            groups.append(_ParameterGroup(parameters, decay, part.rate, end, part.is_paced))
    return [group for group in groups if group.parameters]


def _optimiser(groups: list[_ParameterGroup], config: TrainingSettings) -> torch.optim.SGD:
    trained = [
        {"params": group.parameters, "weight_decay": group.weight_decay}
        | ({"paced_from": group.rate * config.learning_rate} if group.is_paced else {})
        for group in groups
    ]
    return torch.optim.SGD(trained, config.learning_rate, momentum=config.momentum, fused=True)


def _metrics_line(
    epoch: int, means: dict[str, float], optimiser: torch.optim.Optimizer, started: tuple[float, float]
) -> dict[str, Any]:
    return {
        "epoch": epoch,
        **{name: round(value, 6) for name, value in means.items()},
        "learning_rate": optimiser.param_groups[-1]["lr"],
        "seconds": round(time.perf_counter() - started[0], 3),
        "processor_seconds": round(time.process_time() - started[1], 3),
    }
