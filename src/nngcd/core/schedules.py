"""Schedules of settings during training: functions of the epoch or step alone, so a resumed run needs no saved one."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from nngcd.core.errors import ConfigError


def cosine_decay(start: float, end: float, done: float) -> float:
    """Return the value on half a cosine from start to end, with `done` in [0, 1] of the way behind us.

    Written as a weighted mean, because `end + (start - end)` need not be `start` in floating point.
    """
    left = (1 + math.cos(math.pi * done)) / 2
    return left * start + (1 - left) * end


def cosine_learning_rate(epoch: int, n_epochs: int, learning_rate: float, final_fraction: float = 1e-3) -> float:
    """Return the learning rate of an epoch: torch's `CosineAnnealingLR`, stepped once per epoch, in closed form.

    The last epoch is `n_epochs - 1`, so the floor `learning_rate * final_fraction` is approached, not reached.
    """
    return cosine_decay(learning_rate, learning_rate * final_fraction, _done(epoch, n_epochs))


def warmed_cosine(step: int, n_steps: int, n_warmup: int) -> float:
    """Return the fraction of a learning rate in a step: a straight line up to 1, then a cosine down to 0."""
    if step < n_warmup:
        return (step + 1) / n_warmup
    return cosine_decay(1.0, 0.0, _done(step - n_warmup, n_steps - n_warmup))


def two_stages(epoch: int, n_epochs: int, first_share: float) -> range:
    """Return the epochs of the stage an epoch belongs to, the first or the second, which has one at least."""
    second = min(round(first_share * n_epochs), n_epochs - 1)
    return range(second) if epoch < second else range(second, n_epochs)


def linear_warmup(epoch: int, start: float, end: float, n_epochs: int) -> float:
    """Return the value of an epoch on a straight line from start (epoch 0) to end (epoch `n_epochs - 1` and later).

    SimGCD's teacher temperature is `linear_warmup(epoch, 0.07, 0.04, 30)`. As there, one warm-up epoch means one epoch
    at `start`; none means `end` throughout. NN-GCD prints a teacher temperature of 0.007; its code runs this schedule.
    """
    if epoch < 0:
        raise ValueError(f"epoch counts from 0, got {epoch}")
    return float(np.linspace(start, end, n_epochs)[epoch]) if epoch < n_epochs else end


def teacher_momentum(
    step: int, n_steps: int, start: float, end: float, form: Literal["exact", "mugcd"] = "exact"
) -> float:
    """Return the share of itself that the teacher keeps at a step (omega), rising along half a cosine.

    NN-GCD (section V-A) prints `end - (1 - start) cos(pi t / (T + 1)) / 2`. That runs from 0.84 past 1 to 1.14 with its
    0.7 and 0.99: above 1 the student is subtracted from the teacher, which then diverges. The `+ 1` beside the cosine
    was lost in print; the authors' code has it.

    Args:
        step: of the whole run, counted from 0.
        n_steps: of the whole run (T).
        start: momentum at step 0 (omega_min).
        end: momentum at step T (omega_max); 0.99 in the paper, 0.999 in the authors' code.
        form: `exact` gives precisely `start` at 0 and `end` at T; `mugcd` is the authors' code,
            `end - (1 - start) (cos(pi t / T) + 1) / 2`, which begins at `start - (1 - end)`.

    Raises:
        ConfigError: the momentum is outside [0, 1] anywhere in the run.
    """
    first = start if form == "exact" else end - (1 - start)
    for moment, value in (("first", first), ("last", end)):
        if not 0 <= value <= 1:
            raise ConfigError("teacher_momentum", value, f"must be in [0, 1]; it is not at the {moment} step")
    return cosine_decay(first, end, _done(step, n_steps))


def _done(step: int, n_steps: int) -> float:
    return min(step / n_steps, 1.0) if n_steps > 0 else 1.0
