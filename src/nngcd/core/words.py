"""Counts, lists, sizes and times in words."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path


def count(number: int, thing: str, things: str | None = None) -> str:
    """Return `1 image` or `2,000 images`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def quoted(names: Sequence[str], most: int = 4) -> str:
    """Return the first few names in quotes."""
    shown = ", ".join(f"'{name}'" for name in names[:most])
    return f"{shown}, ..." if len(names) > most else shown


def argument(path: str | Path) -> str:
    """Return a path as it has to be typed in a command: quoted where needed, and never taken for an option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


def duration(seconds: float) -> str:
    """Return a time in a unit that suits it: `40 s`, `12 min`, `5 h` or `4 days`."""
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.0f} h" if seconds < 72 * 3600 else f"{seconds / 86400:.0f} days"


def size(n_bytes: float) -> str:
    """Return a number of bytes in a unit that suits it: `1.2 GB`, `3.4 MB` or `56 kB`."""
    if n_bytes >= 1e8:
        return f"{n_bytes / 1e9:.1f} GB"
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e5 else f"{n_bytes / 1e3:.0f} kB"
