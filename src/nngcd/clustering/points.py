"""The rows that are clustered: checked, centred, read a block at a time, and spread over processes if need be."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import check_array
from torch import Tensor

from nngcd.core import processes
from nngcd.core.errors import ConfigError, DataError

Ids = NDArray[np.int64]
Rows = Tensor | NDArray[Any]
WIDE = torch.float64
"""The type of sums over many rows; everything else has the type of the rows."""
UNIT_BLOCK = 1024
"""Rows that `UnitRows` holds in float64 at a time, 10 MB of 1,280 features: the system takes larger blocks back each
time they are let go of, which with four times as many rows made whitening 1.6 times slower."""
SHORTEST = 1e-12
"""Least divisor of `F.normalize`: a row shorter than this does not get length 1."""


def _own(total: Tensor) -> Tensor:
    return total


@dataclass(frozen=True, slots=True)
class Shards:
    """Spread of rows over processes: each fits its own rows, and all find what one would find with all rows.

    Each needs at least one row. Rank and count are there because a seed is drawn from all rows, in rank order.
    """

    rank: int = 0
    count: int = 1
    all_reduce: Callable[[Tensor], Tensor] = _own
    """Returns the sum of a tensor over all processes; nothing else passes between them."""

    def gather(self, own: Tensor) -> Tensor:
        """Return every shard's tensor, stacked in the order of the ranks."""
        slots = own.new_zeros(self.count, *own.shape)
        slots[self.rank] = own
        return self.all_reduce(slots)


ONE_PROCESS = Shards()


def run_shards() -> Shards:
    """Return how this run's processes share rows; each fits its `processes.share` of them."""
    return Shards(processes.rank(), processes.count(), processes.all_reduce)


class Points(NamedTuple):
    """The rows less mean_d, the mean of all shards: norm_n = |x|^2, less 2 x.c, plus |c|^2 is accurate in float32."""

    x_nd: Tensor
    norm_n: Tensor
    label_n: Tensor
    """The cluster a row is held in; -1 for a free row."""
    mean_d: Tensor
    n_total: int
    """Rows of all shards."""
    block_size: int
    shards: Shards

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Give the rows a block at a time, each with its place."""
        for start in range(0, len(self.x_nd), self.block_size):
            rows = slice(start, start + self.block_size)
            yield rows, self.x_nd[rows]


@dataclass(frozen=True, slots=True)
class UnitRows:
    """The directions of rows less their mean, as `Points` has rows, but in float64 and made a block at a time.

    Of a million rows of 1,280 features one copy in float64 would take 10 GB.
    """

    row_nd: Tensor
    label_n: Tensor
    """The class of a row; -1 for an unlabelled one."""
    mean_d: Tensor
    shards: Shards = ONE_PROCESS

    @classmethod
    def of(cls, values: Rows, labels: Rows | None = None) -> UnitRows:
        """Return the directions of a table of rows; without labels all rows are unlabelled."""
        row_nd = as_rows(values)
        label_n = torch.full((len(row_nd),), -1) if labels is None else as_labels(labels, len(row_nd))
        whole = cls(row_nd, label_n.to(row_nd.device), row_nd.new_zeros(row_nd.shape[1], dtype=WIDE))
        mean_d = torch.stack([unit_bd.sum(0) for _, unit_bd in whole.blocks()]).sum(0) / len(row_nd)
        check_finite(mean_d)
        return replace(whole, mean_d=mean_d)

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Give the rows a block at a time, each with its place."""
        for start in range(0, len(self.row_nd), UNIT_BLOCK):
            rows = slice(start, start + UNIT_BLOCK)
            yield rows, F.normalize(self.row_nd[rows].to(WIDE)) - self.mean_d


def check_finite(sums: Tensor) -> None:
    """Raise `DataError` where rows, or sums over them, show values that are not finite numbers."""
    if not torch.isfinite(sums).all():
        raise DataError("the features have NaN or infinite values; remove or correct those rows")


def check_squares(is_squared_n: Tensor, row_nd: Tensor) -> None:
    """Raise `DataError` for the first row whose squares are too large or too small, if there is one."""
    if not is_squared_n.all():
        first = int(is_squared_n.logical_not().nonzero()[0])
        raise _cannot_be_squared(row_nd[first], f" in row {first}")


def check_directions(row_nd: Tensor) -> None:
    """Raise `DataError` unless every row is finite and has a direction, or is all zeros."""
    norm_n = torch.linalg.vector_norm(row_nd, dim=1)
    is_squared_n = torch.isfinite(norm_n)
    check_finite(row_nd[~is_squared_n])
    short_m = (norm_n < SHORTEST).nonzero().flatten()
    is_squared_n[short_m] = ~row_nd[short_m].any(1)
    check_squares(is_squared_n, row_nd)
    # No sum of rows is longer than all of them together, so the mean of any cluster has a direction as well.
    if not torch.isfinite(norm_n.sum(dtype=WIDE).square()):
        raise _cannot_be_squared(row_nd, "")


def _cannot_be_squared(value_nd: Tensor, where: str) -> DataError:
    least, most = (float(end) for end in value_nd.aminmax())
    found = f"features from {least:.1g} to {most:.1g}{where} are too large or too small to be squared"
    return DataError(f"{found}; rescale them, for example to unit length")


def as_rows(values: Rows) -> Tensor:
    """Return a non-empty table as float32 or float64, without a copy where possible; else raise `DataError`.

    Numbers that float32 could round, whole ones of 32 or 64 bits and those of lists, become float64. Where an array is
    sparse or of objects that are not numbers, scikit-learn raises `TypeError`.
    """
    row_nd = _as_real(values if isinstance(values, Tensor) else _as_table(values), "features", "float32 or float64")
    if row_nd.ndim != 2 or not row_nd.numel():
        raise DataError(f"features must be a non-empty table (rows, features), got shape {tuple(row_nd.shape)}")
    if row_nd.dtype in (torch.float32, torch.float64):
        return row_nd
    is_wide = not row_nd.is_floating_point() and row_nd.element_size() >= 4
    return row_nd.double() if is_wide else row_nd.float()


def as_labels(values: Rows, n_rows: int) -> Tensor:
    """Return the labels of rows as int64.

    Raises:
        DataError: they are not one integer per row, below -1, or too high for int64.
    """
    label_n = _as_real(values, "labels", "int64")
    if label_n.shape != (n_rows,) or label_n.is_floating_point() or label_n.dtype == torch.bool:
        what = f"{str(label_n.dtype).removeprefix('torch.')} of shape {tuple(label_n.shape)}"
        raise DataError(f"labels must be {n_rows} integers, one per row and -1 for unlabelled, got {what}")
    is_wide, label_n = label_n.dtype == torch.uint64, label_n.long()
    lowest = int(label_n.min()) if n_rows else 0
    if is_wide and lowest < 0:
        raise DataError(f"labels must be below 2**63, got {lowest + 2**64}; give int64, with -1 for unlabelled")
    if lowest < -1:
        raise DataError(f"labels must be 0, 1, 2, ... and -1 for unlabelled, got {lowest}")
    return label_n


def as_tensor(values: Rows, name: str, wanted: str) -> Tensor:
    """Return an array, or what can be made one such as a DataFrame, as a tensor; else raise `DataError`."""
    if issparse(values) or (isinstance(values, Tensor) and values.layout != torch.strided):
        way = "to_dense" if isinstance(values, Tensor) else "toarray"
        raise DataError(f"sparse {name} cannot be used; give {name}.{way}()")
    _check_mask(values, name)
    try:
        return torch.as_tensor(_as_array(values)).detach()
    except (TypeError, ValueError, RuntimeError):
        raise _unusable(values, name, wanted) from None


def _as_table(values: Rows) -> NDArray[Any]:
    """Return what scikit-learn takes for rows of features; whether they are finite is asked later, without a pass."""
    _check_mask(values, "features")
    try:
        table: NDArray[Any] = check_array(
            _as_array(values), dtype="numeric", ensure_all_finite=False, input_name="features"
        )
    except ValueError as error:
        raise DataError(f"these features cannot be used: {error}") from None
    return table


def _check_mask(values: Rows, name: str) -> None:
    if np.ma.is_masked(values):
        raise DataError(f"{name} must not be masked; fill the values or remove those rows")


def _as_array(values: Rows) -> Rows:
    """Return what can be made an array as one that torch can read."""
    if isinstance(values, Tensor) or not (hasattr(values, "__array__") or isinstance(values, list | tuple)):
        return values
    array = np.asarray(values)
    if not array.dtype.isnative:  # torch knows only this machine's order of bytes
        return array.astype(array.dtype.newbyteorder("="))
    # Torch warns of what may not be written to, such as the array of a DataFrame. One that was given as an array is
    # not copied: it may be a large file mapped into memory.
    is_locked = not array.flags.writeable and not isinstance(values, np.ndarray)
    is_backwards = any(stride < 0 for stride in array.strides)  # torch cannot read that
    return array.copy() if is_locked or is_backwards else array


def _as_real(values: Rows, name: str, wanted: str) -> Tensor:
    tensor = as_tensor(values, name, wanted)
    if tensor.is_complex():
        raise _unusable(values, name, wanted)
    return tensor


def _unusable(values: Rows, name: str, wanted: str) -> DataError:
    kind = str(getattr(values, "dtype", type(values).__name__)).removeprefix("torch.")
    return DataError(f"{name} of type {kind} cannot be used; give an array of {wanted}")


def prepare(values: Rows, label_n: Tensor | None, block_size: int, shards: Shards) -> Points:
    """Return the points of a table of rows; without labels all are free.

    Raises:
        ConfigError: there can be no such block.
        DataError: rows have values that are not numbers, or whose squares overflow or underflow.
    """
    check_counts(block_size=block_size)
    row_nd = as_rows(values)
    sum_d = torch.stack([row_bd.sum(0, dtype=WIDE) for row_bd in torch.split(row_nd, block_size)]).sum(0)
    total_e = shards.all_reduce(torch.cat([sum_d, sum_d.new_tensor([len(row_nd)])]))
    check_finite(total_e)
    mean_d = (total_e[:-1] / total_e[-1]).to(row_nd.dtype)
    label_n = torch.full((len(row_nd),), -1) if label_n is None else label_n
    x_nd = row_nd - mean_d
    norm_n = torch.cat([x_bd.square().sum(1) for x_bd in torch.split(x_nd, block_size)])
    if not torch.isfinite(norm_n.max()) or (not norm_n.any() and x_nd.any()):
        raise _cannot_be_squared(x_nd, " about their mean")
    return Points(x_nd, norm_n, label_n.to(row_nd.device), mean_d, int(total_e[-1]), block_size, shards)


class KMeansSettings(Protocol):
    """Settings of both kinds of k-means."""

    n_clusters: int
    n_init: int
    max_iter: int
    tol: float
    random_state: int


def check_settings(points: Points, settings: KMeansSettings) -> None:
    """Raise `ConfigError` for settings that are impossible or do not fit the rows."""
    check_counts(n_clusters=settings.n_clusters, n_init=settings.n_init, max_iter=settings.max_iter)
    check_whole(random_state=settings.random_state)
    check_tolerance(settings.tol)
    if settings.n_clusters > points.n_total:
        raise ConfigError("n_clusters", settings.n_clusters, f"must not exceed the {points.n_total} rows")


def check_tolerance(tol: float) -> None:
    """Raise `ConfigError` unless it is a share."""
    if not isinstance(tol, Real) or not tol >= 0:
        raise ConfigError("tol", tol, "must be a number, 0 or more")


def check_counts(**numbers: int) -> None:
    """Raise `ConfigError` unless it is a whole number of at least 1."""
    check_whole(**numbers)
    for name, value in numbers.items():
        if value < 1:
            raise ConfigError(name, value, "must be at least 1")


def check_whole(**numbers: int) -> None:
    """Raise `ConfigError` unless it is a whole number."""
    for name, value in numbers.items():
        try:
            operator.index(value)
        except TypeError:
            raise ConfigError(name, value, "must be a whole number") from None


def total(points: Points, value_n: Tensor) -> float:
    """Return the sum of a value over the rows of all shards."""
    return float(points.shards.all_reduce(value_n.sum(dtype=WIDE)))
