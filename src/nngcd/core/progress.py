"""How long work tells how far it is; the library reports, whoever called it decides what to show."""

from __future__ import annotations


class Progress:
    """Receives the stages of a run; this one shows nothing."""

    def start(self, stage: str, total: int) -> None:
        """Begin a stage of `total` equal pieces."""

    def advance(self, n: int = 1, note: str = "") -> None:
        """Report `n` more pieces done, with a word on the current state, for example the loss."""

    def finish(self, note: str = "") -> None:
        """End the stage, with its result in a few words."""
