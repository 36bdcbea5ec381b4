"""Number of processor cores for this process, and of the processes that torchrun started to share them."""

from __future__ import annotations

import os

from nngcd.core.errors import ConfigError


def launched_number(name: str, absent: int) -> int:
    """Return a number that torchrun gives every process it starts, such as `WORLD_SIZE`."""
    text = os.environ.get(name, str(absent))
    least = 0 if name in ("RANK", "LOCAL_RANK") else 1
    if not text.isdecimal() or int(text) < least:
        raise ConfigError(name, text, "must be a whole number, as torchrun sets it. To use one process, unset it")
    return int(text)


def n_launched() -> int:
    """Return how many processes torchrun started, 1 without torchrun; asked without waiting seconds for torch."""
    return launched_number("WORLD_SIZE", 1) if "TORCHELASTIC_RUN_ID" in os.environ else 1


def n_cores() -> int:
    """Return the cores this process may use: taskset, a cpuset or a cluster's scheduler may give it only some.

    A limit of processor time, as of `docker run --cpus`, is not seen.
    """
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
