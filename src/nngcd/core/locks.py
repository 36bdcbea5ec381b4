"""A lock on a folder: one process holds it at a time, and the system frees it when that process ends in any way."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, SoftFileLock, Timeout

from nngcd.core.atomic import UMASK, cannot_write
from nngcd.core.errors import ResourceError

LOCK, HOLDER = ".lock", ".holder"
"""The lock stays when it is free: removing it would let two processes hold it. The holder says who has it."""


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Hold a folder for this process.

    Raises:
        ResourceError: another process holds it (T11), or nothing can be written there.
    """
    lock = FileLock(folder / LOCK, timeout=0, mode=0o666 & ~UMASK)
    try:
        lock.acquire()
    except Timeout:
        raise ResourceError(f"T11: {folder} is in use by {holder_of(folder)}. {_way_out(lock)}") from None
    except OSError as error:
        raise cannot_write(folder / LOCK, error) from error
    try:
        # Only for the message above, so a full disk does not matter.
        with suppress(OSError):
            (folder / HOLDER).write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
        yield
    finally:
        with suppress(OSError):
            (folder / HOLDER).unlink(missing_ok=True)
        lock.release()


def holder_of(folder: Path) -> str:
    """Return who holds a folder, as far as that is known."""
    try:
        holder = json.loads((folder / HOLDER).read_text(encoding="utf-8"))
        return f"process {int(holder['pid'])} on {holder['host']}"
    except (OSError, ValueError, TypeError, KeyError):
        return "another process"


def _way_out(lock: FileLock) -> str:
    if isinstance(lock, SoftFileLock):  # this disk knows no locks that the system frees
        return f"If that process is gone, delete {lock.lock_file}."
    return "Wait until that process ends, or stop it."
