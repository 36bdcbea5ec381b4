"""Memory: how much a run needed, of machine and GPU, whether it was too little, and keeping what is freed."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from pathlib import Path

import torch

_STATUS, _FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Their numbers for `mallopt` (malloc.h)."""
LARGEST_KEPT, MOST_KEPT = 2**27, 2**29
"""Bytes of the largest block that is kept when it is freed, and of all such blocks at the heap's end."""


def keep_freed_memory() -> None:
    """Let glibc keep what is freed for what is asked for next; elsewhere, or where the user has tuned it, do nothing.

    By default it maps blocks above 32 MB again each time and returns the end of its heap, and the system clears every
    page again: a quarter of the processor time of a network's pass (benchmarks/allocation.py). Numbers stay the same.
    """
    is_tuned = any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ)
    if sys.platform != "linux" or is_tuned:
        return
    mallopt = getattr(_libc(), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, LARGEST_KEPT)
        mallopt(_TRIM_THRESHOLD, MOST_KEPT)


def forget_peak() -> None:
    """Start counting again, so a run is not charged with what an earlier one in the same process needed.

    Only Linux can forget the peak of its own memory; elsewhere it stays that of the whole process.
    """
    gc.collect()
    # What `keep_freed_memory` keeps would count as the next run's.
    if (trim := getattr(_libc(), "malloc_trim", None)) is not None:
        trim(0)
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    try:
        _FORGET.write_text("5")
    except OSError:
        pass


def peak_gb() -> dict[str, float]:
    """Return the most memory in use since `forget_peak`, in GB (10^9 bytes), by kind: `ram`, and `gpu` if there is one.

    Image-reading processes are not counted.
    """
    peaks = {"ram": _ram_peak()}
    if torch.cuda.is_available():
        peaks["gpu"] = float(torch.cuda.max_memory_allocated())
    return {kind: round(n_bytes / 1e9, 2) for kind, n_bytes in peaks.items() if n_bytes}


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out: on a CPU torch has no class of its own for that."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)


def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if sys.platform == "linux" else None


def _ram_peak() -> float:
    if _STATUS.is_file():
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return float(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows has no such count
        return 0.0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # macOS counts bytes, all others kilobytes.
    return float(most) if sys.platform == "darwin" else float(most) * 1024
