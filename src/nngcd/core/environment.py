"""Environment of a run: versions, machine and command line, for environment.json and `nngcd doctor`."""

from __future__ import annotations

import os
import platform
import sys
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version

import torch

PACKAGES = ("nngcd", "torch", "torchvision", "timm", "lightning-fabric", "safetensors", "numpy", "scipy",
            "scikit-learn", "pandas", "pyarrow", "pillow", "openvino")  # fmt: skip


def versions() -> dict[str, str]:
    """Return the version of Python and of every package that can change a result."""
    return {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES}


def machine() -> dict[str, object]:
    """Return what the machine offers."""
    return {
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "mps": torch.backends.mps.is_available(),
    }


def environment() -> dict[str, object]:
    """Return the facts that environment.json records when a run starts."""
    return {"versions": versions(), "machine": machine(), "command": sys.argv, "started": now()}


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
