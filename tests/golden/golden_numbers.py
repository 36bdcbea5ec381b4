"""Numbers that the authors' public code gives, and the inputs it was given; none of their code is here.

A file `NAME.yaml` has the numbers of one method. Its comments say which repository, commit and function they come from.
Each row states everything that decides a number: seeds, shapes and constants. Inputs are drawn by numpy's
`RandomState`, whose stream never changes, and both sides compute in float64.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch import Tensor, nn

TOLERANCE = 1e-6


def rows(name: str, part: str) -> list[Any]:
    """Return the rows of a part of a file as parameters of a test."""
    table = yaml.safe_load((Path(__file__).parent / f"{name}.yaml").read_text(encoding="utf-8"))
    return [pytest.param(row, id=f"{part}-{index}") for index, row in enumerate(table[part])]


def normal(seed: int, *shape: int) -> Tensor:
    """Return independent normal numbers that gradients can be asked for."""
    return torch.from_numpy(np.random.RandomState(seed).standard_normal(shape)).requires_grad_()


def classes(seed: int, n: int, n_classes: int, *, labelled: float = 1.0) -> Tensor:
    """Return classes drawn evenly, of which a share keeps its label and the others are -1."""
    random = np.random.RandomState(seed)
    class_n = random.randint(n_classes, size=n)
    return torch.from_numpy(np.where(random.uniform(size=n) < labelled, class_n, -1)).long()


def fill(module: nn.Module, seed: int) -> nn.Module:
    """Return the module in float64 with normal numbers, over the root of the last axis, for its parameters in turn."""
    random = np.random.RandomState(seed)
    with torch.no_grad():
        for parameter in module.double().parameters():
            parameter.copy_(torch.from_numpy(random.standard_normal(parameter.shape)) / parameter.shape[-1] ** 0.5)
    return module


def assert_agrees(row: dict[str, Any], value: Tensor, *inputs: Tensor) -> None:
    """Compare a value, and the norm of its gradient in each of the inputs, with a row's `value` and `gradients`."""
    assert value.item() == pytest.approx(row["value"], rel=TOLERANCE, abs=TOLERANCE)
    norms = [gradient.norm().item() for gradient in torch.autograd.grad(value, inputs)] if inputs else []
    assert norms == pytest.approx(row.get("gradients", []), rel=TOLERANCE, abs=TOLERANCE)
