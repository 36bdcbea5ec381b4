"""How many processor cores there are for us."""

from __future__ import annotations

import os


def n_cores() -> int:
    """Return the cores this process may use: taskset, a cpuset or a cluster's scheduler may give it only some.

    A limit of processor time, as of `docker run --cpus`, is not seen.
    """
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
