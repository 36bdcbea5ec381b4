"""Progress of long work; the library reports it, and the caller decides what to show."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

OnProgress = Callable[[int, int], None]
"""Is called with how many pieces of one stage are done, and of how many; see `Counted`."""


_Shown = TypeVar("_Shown", bound="Progress")


class Progress:
    """Receives the stages of a run; this one shows nothing. A context, which ends when there is no more to show."""

    def __enter__(self: _Shown) -> _Shown:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def start(self, stage: str, total: int) -> None:
        """Begin a stage of `total` equal pieces."""

    def advance(self, n: int = 1, note: str = "") -> None:
        """Report `n` more pieces done, with a word on the current state, for example the loss."""

    def finish(self, note: str = "") -> None:
        """End the stage, with its result in a few words."""

    def tell(self, text: str) -> None:
        """Say something the user should know before a stage begins, for example how much disk it takes."""


class Counted:
    """A stage for work that calls back with how many pieces are done, and of how many."""

    def __init__(self, progress: Progress, stage: str) -> None:
        self._progress, self._stage, self._n_shown = progress, stage, 0

    def __call__(self, n_done: int, n_total: int) -> None:
        """Show what was done since the last call; the first call starts the stage."""
        if self._n_shown == 0:
            self._progress.start(self._stage, n_total)
        self._progress.advance(n_done - self._n_shown)
        self._n_shown = n_done

    def finish(self, note: str = "") -> None:
        """End the stage, if there was anything to do."""
        if self._n_shown:
            self._progress.finish(note)
