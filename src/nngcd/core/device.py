"""Which device and which precision to compute with."""

from __future__ import annotations

from typing import Literal

import torch

from nngcd.core.cores import launched_number, n_cores, n_launched
from nngcd.core.errors import ConfigError, ResourceError

MOST_WORKERS = 256

Precision = Literal["32-true", "16-mixed", "bf16-mixed"]


def choose_device(name: str) -> torch.device:
    """Return the device for `auto` (CUDA where there is any, else the CPU) or for a name such as `cuda`.

    Apple's MPS must be named: it has no float64, which clustering adds up in, and nngcd has never been run on it.

    Raises:
        ConfigError: not the name of a device.
        ResourceError: the device is not on this machine.
    """
    if name == "auto":
        return _own("cuda") if torch.cuda.is_available() else torch.device("cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError("device", name, "is not a device; try auto, cpu, cuda or mps") from None
    is_here = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not is_here.get(device.type, False):
        raise ResourceError(
            f"T07: no {name} device on this machine (torch {torch.__version__}). "
            "Use --device cpu --effort quick, or see `nngcd doctor`."
        )
    return _own(name) if name == "cuda" else device


def _own(kind: str) -> torch.device:
    """Return this process's device of a kind: of several processes that torchrun starts, each has one."""
    return torch.device(kind, launched_number("LOCAL_RANK", 0)) if n_launched() > 1 else torch.device(kind)


def choose_precision(name: str, device: torch.device) -> Precision:
    """Return the precision for `auto` or a given name.

    `auto` is bf16 only where the hardware computes in it: emulated on an AVX2 CPU it is 8 times slower than fp32.
    """
    if name == "auto":
        if device.type != "cuda":
            return "32-true"
        return "bf16-mixed" if torch.cuda.is_bf16_supported() else "16-mixed"
    for precision in ("32-true", "16-mixed", "bf16-mixed"):
        if name == precision:
            return precision
    raise ConfigError("precision", name, "must be auto, 32-true, 16-mixed or bf16-mixed")


def choose_workers(n_workers: int | None) -> int:
    """Return the number of image-reading processes: as asked, or one per core up to 8, shared among processes.

    Reading takes turns with the network on a small CPU, where one core less still leaves the network starved.
    """
    if n_workers is not None:
        if not 0 <= n_workers <= MOST_WORKERS:
            raise ConfigError("workers", n_workers, f"must be from 0 to {MOST_WORKERS}")
        return n_workers
    return max(1, min(8, n_cores()) // launched_number("LOCAL_WORLD_SIZE", 1))
