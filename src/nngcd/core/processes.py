"""Several processes at work on one run, started by torchrun: who this one is, its share, and what all have together.

With one process everything here is the identity. All processes call the same functions in the same order.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from nngcd.core.cores import launched_number, n_launched


def is_launched() -> bool:
    """Whether torchrun started this process as one of several."""
    return dist.is_available() and n_launched() > 1


def are_together() -> bool:
    """Whether several processes have met, as they do to train; those that share out work never need to."""
    return is_launched() and dist.is_initialized()


def count() -> int:
    """Return how many processes work on this run."""
    return n_launched() if is_launched() else 1


def rank() -> int:
    """Return which of them this is, from 0."""
    return launched_number("RANK", 0) if is_launched() else 0


def is_first() -> bool:
    """Whether this is the process that prints and writes."""
    return rank() == 0


def share(n: int) -> slice:
    """Return which of n things are this process's: a run of them, as long as the others' or one shorter."""
    return _shares(n)[rank()]


def gather(own: Tensor, n: int) -> Tensor:
    """Return all n rows, of which `own` is this process's `share`; gradients flow back to one's own rows."""
    if count() == 1:
        return own
    rows: Tensor = _Gather.apply(own, n)  # type: ignore[no-untyped-call]  # torch has no types for it
    return rows


def all_reduce(own: Tensor) -> Tensor:
    """Return the sum over the processes."""
    if count() == 1:
        return own
    total = own.clone()
    dist.all_reduce(total)
    return total


def from_first(value: Any) -> Any:  # noqa: ANN401 (anything that can be pickled)
    """Return the first process's value to all."""
    if count() == 1:
        return value
    values = [value]
    dist.broadcast_object_list(values)
    return values[0]


def in_all(holds: bool) -> bool:
    """Return whether something holds in every process."""
    if count() == 1:
        return holds
    answers = [False] * count()
    dist.all_gather_object(answers, holds)
    return all(answers)


def wait() -> None:
    """Return when all processes are here."""
    if count() > 1:
        dist.barrier()


def leave() -> None:
    """Part from the other processes, while Python still runs.

    gloo's threads may hold tensors for a moment after a step. One that lets go of them while the interpreter ends
    aborts the whole process, and torchrun then takes a run that is complete for one that failed.
    """
    if dist.is_initialized():
        dist.destroy_process_group()


def is_broken_connection(error: RuntimeError) -> bool:
    """Whether an error says that another process is gone."""
    text = str(error).lower()
    return count() > 1 and any(word in text for word in ("gloo", "nccl", "connection", "tcpstore"))


def _shares(n: int) -> list[slice]:
    ends = [n * i // count() for i in range(count() + 1)]
    return [slice(start, end) for start, end in pairwise(ends)]


class _Gather(torch.autograd.Function):
    """Gathers rows. Backward is right for a loss that every process computes alike from all rows, as ours do.

    Training averages gradients over the processes. What follows the gathering is then the mean of equal gradients; what
    precedes it gets a gradient from its own rows only, so these count as often as there are processes.
    """

    @staticmethod
    def forward(ctx: Any, own: Tensor, n: int) -> Tensor:  # noqa: ANN401 (torch's context)
        padded = own.new_zeros(-(-n // count()), *own.shape[1:])
        padded[: len(own)] = own
        parts = [torch.empty_like(padded) for _ in range(count())]
        dist.all_gather(parts, padded)
        return torch.cat([part[: rows.stop - rows.start] for part, rows in zip(parts, _shares(n), strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401 (torch's context)
        (gradient,) = gradients
        return gradient[share(len(gradient))] * count(), None
