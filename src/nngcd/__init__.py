"""nngcd: sort partly labelled images into known and newly discovered categories."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nngcd.api.batches import Embedder, Predictor
    from nngcd.api.estimator import CategoryDiscovery
    from nngcd.checking.image_table import ImageTable
    from nngcd.finished_run import Run
    from nngcd.pipeline import resume, run

# Before torch is imported: OpenMP threads that wait for each other by spinning stall as soon as anything else wants a
# core, be it our own image readers. A short spin is as fast alone and bears company (benchmarks/waiting.py).
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

__version__ = "0.1.0"
__all__ = ["CategoryDiscovery", "Embedder", "ImageTable", "Predictor", "Run", "__version__", "resume", "run"]

_PLACES = {
    "CategoryDiscovery": "api.estimator",
    "Embedder": "api.batches",
    "ImageTable": "checking.image_table",
    "Predictor": "api.batches",
    "Run": "finished_run",
    "resume": "pipeline",
    "run": "pipeline",
}


def __getattr__(name: str) -> object:
    """Import public names when first asked for: torch takes seconds to import, and `nngcd --help` needs none."""
    if name in _PLACES:
        return getattr(import_module(f"nngcd.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'nngcd' has no attribute '{name}'")
