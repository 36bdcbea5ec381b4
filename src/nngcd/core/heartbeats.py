"""Signs of life of processes that torchrun started: each gives one every few seconds, and notices who goes silent.

A process that was stopped, or whose machine is gone, would otherwise keep the others waiting without a word.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from nngcd.core.cores import launched_number, n_launched

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]  # it is documented

SECONDS_BETWEEN, SECONDS_SILENT = 2.0, 40.0
"""Time between two signs, and without any before a process counts as silent."""
OnSilence = Callable[[str], None]


class Heartbeats(threading.Thread):
    """Gives signs of life in the store of torchrun, and calls `on_silence` once, with words, where another's stop."""

    def __init__(self, store: Store, rank: int, count: int, on_silence: OnSilence) -> None:
        super().__init__(name="heartbeats", daemon=True)
        self._store, self._rank, self._count, self._on_silence = store, rank, count, on_silence
        self._last_seen: dict[int, tuple[str, float]] = {}
        self._is_over = threading.Event()

    def run(self) -> None:
        """Give signs and look for those of the others, until this process leaves or the store is gone."""
        number = 0
        with suppress(RuntimeError):  # torchrun has ended
            while not self._is_over.wait(SECONDS_BETWEEN if number else 0):
                number += 1
                self._store.set(_key(self._rank), f"{number} {os.getpid()} {socket.gethostname()}")
                if silent := [rank for rank in range(self._count) if rank != self._rank and self._is_silent(rank)]:
                    self._on_silence(self._words(silent[0]))
                    return

    def leave(self) -> None:
        """Tell the others that this process ends as it should."""
        if not self._is_over.is_set():
            self._is_over.set()
            with suppress(RuntimeError):
                self._store.set(_key(self._rank), "left")

    def _is_silent(self, rank: int) -> bool:
        if not self._store.check([_key(rank)]):
            return False  # still loading
        sign, now = self._store.get(_key(rank)).decode(), time.monotonic()
        before, since = self._last_seen.get(rank, ("", now))
        if sign != before:
            self._last_seen[rank] = sign, now
            return False
        return sign != "left" and now - since > SECONDS_SILENT

    def _words(self, rank: int) -> str:
        _, pid, host = self._last_seen[rank][0].split(" ", 2)
        return (
            f"T12: process {rank} of {self._count} (pid {pid} on {host}) has given no sign of life for "
            f"{SECONDS_SILENT:.0f} s: it was stopped, or its machine is gone."
        )


def begin(on_silence: OnSilence) -> Heartbeats | None:
    """Start the heartbeats of this process; None where it is alone, or torchrun keeps no store for all."""
    if n_launched() < 2 or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # it is documented

    port = int(os.environ["MASTER_PORT"])
    try:
        store = TCPStore(os.environ["MASTER_ADDR"], port, is_master=False)
    except RuntimeError:  # without it, everything works but this
        return None
    beats = Heartbeats(store, launched_number("RANK", 0), n_launched(), on_silence)
    beats.start()
    return beats


def _key(rank: int) -> str:
    return f"nngcd/alive/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{rank}"
