"""The `with` block of `Run.edit` and `CategoryDiscovery.edit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from nngcd.core.run_folder import RunFolder
from nngcd.review.session import Review


class EditBlock:
    """Context manager for edits: it returns the review, and reports when the block has ended, even by an error."""

    def __init__(self, run: RunFolder, *, user: str | None, on_end: Callable[[], None] = lambda: None) -> None:
        self._run, self._user, self._on_end = run, user, on_end

    def __enter__(self) -> Review:
        return Review(self._run, user=self._user)

    def __exit__(self, *_: object) -> None:
        self._on_end()

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"use '{name}' in a block: with run.edit() as e: e.{name}(...)")
