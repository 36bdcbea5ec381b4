"""The user's own cache folder: what nngcd keeps between commands, and may be deleted at any time."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from nngcd.core.cores import n_launched

BESIDE = ".nngcd-cache"
"""The cache next to a folder of runs that several processes share."""


def user_cache() -> Path:
    """Return the folder: `cache` in `$NNGCD_HOME`, else `nngcd` where this system keeps caches."""
    if home := os.environ.get("NNGCD_HOME"):
        return Path(home) / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "nngcd"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "nngcd" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nngcd"


def default_cache(runs: Path) -> Path:
    """Return where views are kept by default: in the user's cache, which all runs share.

    Several processes may be on several machines that share only the folder of their runs, so theirs is in there.
    """
    return user_cache() if n_launched() == 1 else runs / BESIDE
