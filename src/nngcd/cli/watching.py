"""Several processes wait for each other: one that is stopped would silence all of them."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from nngcd.cli.display import say_error
from nngcd.core.progress import Progress

SECONDS_OF_SILENCE = 20


class Watched(Progress):
    """Passes everything on, and says so when a stage of work has stood still for some time."""

    def __init__(self, shown: Progress, n_processes: int) -> None:
        self._shown, self._n_processes = shown, n_processes
        self._moved: float | None = None
        """When the stage moved last; None between stages."""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Watched:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join()

    def start(self, stage: str, total: int) -> None:
        """Begin to watch."""
        self._moved = time.monotonic()
        self._shown.start(stage, total)

    def advance(self, n: int = 1, note: str = "") -> None:
        """Note that the stage moves."""
        self._moved = time.monotonic()
        self._shown.advance(n, note)

    def finish(self, note: str = "") -> None:
        """Watch no longer."""
        self._moved = None
        self._shown.finish(note)

    def tell(self, text: str) -> None:
        """Pass it on."""
        self._shown.tell(text)

    def _watch(self) -> None:
        told = None
        while not self._is_over.wait(SECONDS_OF_SILENCE / 4):
            moved = self._moved
            if moved is not None and moved != told and time.monotonic() - moved >= SECONDS_OF_SILENCE:
                told = moved
                text = (
                    f"no progress for {SECONDS_OF_SILENCE} s. Waiting for another of the {self._n_processes} "
                    f"processes, which may be stopped, or for one long step."
                )
                say_error(text, "note:", "yellow")
