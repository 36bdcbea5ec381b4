"""Numbers of things in words."""

from __future__ import annotations


def count(number: int, thing: str, things: str | None = None) -> str:
    """Return `1 image` or `2,000 images`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"
