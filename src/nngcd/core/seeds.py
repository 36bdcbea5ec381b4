"""One seed, many independent generators, each named after its purpose."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def derive(seed: int, *purpose: str | int) -> int:
    """Return a 63-bit seed for a named purpose, for example `derive(0, "sampler", epoch)`.

    Hashing instead of adding keeps the streams independent, and needs no state to be saved: epoch 7 of a resumed run
    draws exactly what epoch 7 of an unbroken run draws.
    """
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def torch_generator(seed: int, *purpose: str | int) -> torch.Generator:
    """Return a torch CPU generator for a named purpose."""
    # Imported here: torch takes seconds, and reading or checking images needs none.
    import torch

    return torch.Generator().manual_seed(derive(seed, *purpose))


def numpy_generator(seed: int, *purpose: str | int) -> np.random.Generator:
    """Return a numpy generator for a named purpose."""
    return np.random.default_rng(derive(seed, *purpose))
