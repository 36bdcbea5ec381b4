"""SIGTERM acts as Ctrl-C does, so that one way of stopping is enough."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Any, NoReturn

EXIT_INTERRUPTED = 130
"""As a shell has it for Ctrl-C."""


def interrupt_on_sigterm() -> Any:  # noqa: ANN401 (a handler of any kind, as `signal.signal` has it)
    """Let SIGTERM raise `KeyboardInterrupt` from now on; return what handled it before."""
    own = os.getpid()

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        # A reading process that has just started also has this handler, and nothing to tidy up.
        if os.getpid() != own:
            os._exit(EXIT_INTERRUPTED)
        # A scheduler asks all processes to end at once, and torch would call reading processes that did so a failure.
        if hasattr(signal, "SIGCHLD"):
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        raise KeyboardInterrupt

    return signal.signal(signal.SIGTERM, interrupt)
