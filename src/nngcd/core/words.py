"""Counts and lists in words."""

from __future__ import annotations

from collections.abc import Sequence


def count(number: int, thing: str, things: str | None = None) -> str:
    """Return `1 image` or `2,000 images`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def quoted(names: Sequence[str], most: int = 4) -> str:
    """Return the first few names in quotes."""
    shown = ", ".join(f"'{name}'" for name in names[:most])
    return f"{shown}, ..." if len(names) > most else shown
