import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from nngcd.core.errors import ConfigError
from nngcd.core.schedules import cosine_decay, cosine_learning_rate, linear_warmup, teacher_momentum, two_stages


def test_cosine_decay_hits_both_ends_exactly_and_the_middle_half_way():
    assert cosine_decay(0.7, 0.99, 0.0) == 0.7
    assert cosine_decay(0.7, 0.99, 1.0) == 0.99
    assert cosine_decay(2.0, 4.0, 0.5) == pytest.approx(3.0)
    assert cosine_decay(0.0, 1.0, 1 / 3) == pytest.approx(0.25)  # cos 60 degrees = 1/2, so 3/4 are left


def test_learning_rate_is_torchs_cosine_annealing():
    n_epochs, start = 7, 0.1
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=start)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, n_epochs, eta_min=start * 1e-3)
    for epoch in range(n_epochs + 1):
        assert cosine_learning_rate(epoch, n_epochs, start) == pytest.approx(schedule.get_last_lr()[0], abs=1e-12)
        optimiser.step()
        schedule.step()


def test_learning_rate_ends_at_its_fraction_and_stays_there():
    assert cosine_learning_rate(0, 200, 0.1) == 0.1
    assert cosine_learning_rate(200, 200, 0.1, 0.01) == pytest.approx(0.001)
    assert cosine_learning_rate(500, 200, 0.1) == pytest.approx(1e-4)


def test_warmup_is_simgcds_table():
    table = np.concatenate((np.linspace(0.07, 0.04, 30), np.full(10, 0.04)))
    assert [linear_warmup(epoch, 0.07, 0.04, 30) for epoch in range(40)] == table.tolist()


def test_warmup_of_one_epoch_and_of_none():
    assert [linear_warmup(epoch, 0.07, 0.04, 1) for epoch in range(3)] == [0.07, 0.04, 0.04]
    assert linear_warmup(0, 0.07, 0.04, 0) == 0.04
    with pytest.raises(ValueError, match="epoch counts from 0, got -1"):
        linear_warmup(-1, 0.07, 0.04, 30)


def test_exact_momentum_has_exact_ends_and_rises_within_them():
    values = [teacher_momentum(step, 50, 0.7, 0.99) for step in range(51)]
    assert values[0] == 0.7
    assert values[-1] == 0.99
    assert values[25] == pytest.approx((0.7 + 0.99) / 2)
    assert all(below < above for below, above in pairwise(values))


def test_mugcd_momentum_is_the_authors_formula():
    for step in range(11):
        expected = 0.999 - (1 - 0.7) * (math.cos(math.pi * step / 10) + 1) / 2
        assert teacher_momentum(step, 10, 0.7, 0.999, form="mugcd") == pytest.approx(expected, abs=1e-15)
    assert teacher_momentum(0, 10, 0.7, 0.999, "mugcd") == pytest.approx(0.699)
    assert teacher_momentum(5, 10, 0.7, 0.999, "mugcd") == pytest.approx(0.849)


def test_momentum_stays_at_its_end():
    assert teacher_momentum(99, 50, 0.7, 0.99) == 0.99
    assert teacher_momentum(0, 0, 0.7, 0.99) == 0.99


@pytest.mark.parametrize(("start", "end", "form"), [(0.7, 1.14, "exact"), (-0.1, 0.9, "exact"), (0.2, 0.5, "mugcd")])
def test_momentum_outside_0_and_1_is_refused_from_the_first_step(start, end, form):
    with pytest.raises(ConfigError, match=r"teacher_momentum = .* must be in \[0, 1\]"):
        teacher_momentum(0, 10, start, end, form=form)


def test_the_printed_momentum_leaves_0_and_1():
    printed = [0.99 - (1 - 0.7) * math.cos(math.pi * step / 11) / 2 for step in range(11)]
    assert printed[0] == pytest.approx(0.84)
    assert max(printed) > 1.13


@pytest.mark.parametrize(
    ("share", "first", "second"),
    [(0.5, range(5), range(5, 10)), (0.0, range(10), range(10)), (1.0, range(9), range(9, 10))],
)
def test_the_second_of_two_stages_has_one_epoch_at_least(share, first, second):
    assert two_stages(0, 10, share) == first
    assert two_stages(9, 10, share) == second
