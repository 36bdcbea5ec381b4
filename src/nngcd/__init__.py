"""nngcd: sort partly labelled images into known and newly discovered categories."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nngcd.estimator import CategoryDiscovery
    from nngcd.image_table import ImageTable

# Before torch is imported: OpenMP threads that wait for each other by spinning stall as soon as anything else wants a
# core, be it our own image readers. A short spin is as fast alone and bears company (benchmarks/waiting.py).
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

__version__ = "0.1.0"
__all__ = ["CategoryDiscovery", "ImageTable", "__version__"]


def __getattr__(name: str) -> object:
    """Import public names when first asked for: torch takes seconds to import, and `nngcd --help` needs none."""
    if name == "CategoryDiscovery":
        from nngcd.estimator import CategoryDiscovery

        return CategoryDiscovery
    if name == "ImageTable":
        from nngcd.image_table import ImageTable

        return ImageTable
    raise AttributeError(f"module 'nngcd' has no attribute '{name}'")
