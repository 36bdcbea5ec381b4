"""The most memory a run needed, of the machine and of the GPU, and whether there was too little."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

_STATUS, _FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def forget_peak() -> None:
    """Begin anew, so that a run is not charged with what an earlier one in the same process needed.

    Only Linux can forget the peak of its own memory; elsewhere it stays that of the whole process.
    """
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
