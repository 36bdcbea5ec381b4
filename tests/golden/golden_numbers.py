"""Numbers that the authors' public code gives, and the inputs it was given; none of their code is here.

A file `NAME.yaml` has the numbers of one method. Its comments say which repository, commit and function they come from.
Each row states everything that decides a number: seeds, shapes and constants. Inputs are drawn by numpy's
`RandomState`, whose stream never changes, and both sides compute in float64.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import yaml
from numpy.typing import NDArray
from torch import Tensor, nn

TOLERANCE = 1e-6


def rows(name: str, part: str) -> list[Any]:
    """Return the rows of a part of a file as parameters of a test."""
    return [pytest.param(row, id=f"{part}-{index}") for index, row in enumerate(_table(name)[part])]


@cache
def _table(name: str) -> dict[str, Any]:
    return yaml.safe_load((Path(__file__).parent / f"{name}.yaml").read_text(encoding="utf-8"))


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


class Clusters(NamedTuple):
    """Rows in clusters, some of the old classes' rows labelled, and a first centre for each cluster."""

    unit_nd: Tensor
    class_n: Tensor
    labels_n: Tensor
    """-1 for unlabelled rows."""
    start_kd: Tensor


def clusters(row: dict[str, Any]) -> Clusters:
    """Return the rows that a row's `seed`, `rows`, `features`, `classes`, `old` and `spread` describe, of length 1."""
    random = np.random.RandomState(row["seed"])
    centre_kd = random.standard_normal((row["classes"], row["features"]))
    class_n = random.randint(row["classes"], size=row["rows"])
    x_nd = centre_kd[class_n] + row["spread"] * random.standard_normal((row["rows"], row["features"]))
    unit_nd = x_nd / np.linalg.norm(x_nd, axis=1, keepdims=True)
    is_labelled_n = (class_n < row["old"]) & (random.uniform(size=row["rows"]) < 0.5)
    start_kd = 0.8 * unit_nd[random.choice(row["rows"], row["classes"], replace=False)]
    labels_n = np.where(is_labelled_n, class_n, -1)
    return Clusters(*map(torch.from_numpy, (unit_nd, class_n, labels_n, start_kd)))


def clustering(row: dict[str, Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return classes and clusters of `n` images; a share `right` of a class is in one cluster, the others anywhere."""
    random = np.random.RandomState(row["seed"])
    class_n = random.randint(row["classes"], size=row["n"])
    own_c = random.permutation(max(row["classes"], row["clusters"]))[: row["classes"]] % row["clusters"]
    is_right_n = random.uniform(size=row["n"]) < row["right"]
    return class_n, np.where(is_right_n, own_c[class_n], random.randint(row["clusters"], size=row["n"]))
