"""Several processes of one command: if one goes silent, the others say so and end."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from nngcd.cli.display import say_error
from nngcd.core.cores import n_launched
from nngcd.core.errors import TrainingError

WAY_OUT = {
    "fit": "Everything up to the last complete epoch is kept; continue with the same launcher and `fit --resume RUN`.",
    "embed": "Finished parts are kept; start the same command again.",
    "predict": "Finished parts are kept; start the same command again.",
}
"""Commands that torchrun may start in several processes, and how each goes on after one of these is lost."""


@contextmanager
def watched(command: str) -> Iterator[None]:
    """Watch over the other processes of a command, if there are any."""
    if n_launched() < 2:
        yield
        return
    from nngcd.core.heartbeats import begin

    def end(words: str) -> None:
        say_error(f"{words} {WAY_OUT[command]}")
        sys.stderr.flush()
        # The main thread may wait for the silent process for half an hour.
        os._exit(TrainingError.exit_code)

    beats = begin(end)
    try:
        yield
    finally:
        if beats:
            beats.leave()
