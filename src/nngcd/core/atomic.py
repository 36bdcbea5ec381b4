"""Files that are either whole or absent: written under a temporary name, then renamed; every failure is R01."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from safetensors import SafetensorError

from nngcd.core.errors import ResourceError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import DTypeLike

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
"""Errors that only writing can give."""
UMASK = os.umask(0)
os.umask(UMASK)
SECONDS_PER_DAY = 86_400
_HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
_TEMPORARY = re.compile(r"\..+?\.([0-9a-f]{8})-(\d{1,10})-[0-9a-f]{8}\.tmp")
"""Names that `temporary_beside` makes."""


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`; it replaces `path` if the block succeeds, otherwise it is removed.

    The block may read other files, so it puts what it writes into `writing(path)`.

    Raises:
        ResourceError: the disk is full or not writable; an older file of that name is kept.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = temporary_beside(path)
        temporary.touch()
        temporary.unlink()
    try:
        with filling(path, temporary):
            yield temporary
        with writing(path):
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            # Some writers make private files, but colleagues may read a run folder.
            temporary.chmod(0o666 & ~UMASK)
            temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Report any error as `path` that cannot be written; for blocks that only write it."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise cannot_write(path, error) from error


@contextmanager
def filling(path: Path, temporary: Path) -> Iterator[None]:
    """Report `path` as not writable when an error can only be about the file that will get that name."""
    try:
        yield
    except OSError as error:
        names = (str(name) for name in (error.filename, error.filename2) if name is not None)
        if error.errno in NO_ROOM or any(name.startswith(str(temporary)) for name in names):
            raise cannot_write(path, error) from error
        raise


def cannot_write(path: Path | str, error: Exception) -> ResourceError:
    """Return the error for a place that cannot be written, or is full."""
    number = getattr(error, "errno", None)
    way_out = "Choose another folder."
    if number == errno.ENOENT:
        way_out = "Its folder is gone or takes no files. Repeat the command, or continue with `nngcd fit --resume`."
    elif number in NO_ROOM or isinstance(error, SafetensorError):
        way_out = "Free some space or choose another folder, then continue with `nngcd fit --resume`."
    return ResourceError(f"R01: cannot write {path}: {os.strerror(number) if number else error}. {way_out}")


def temporary_beside(path: Path) -> Path:
    """Return a hidden name next to `path` that no other process uses; leftovers of killed processes are removed."""
    _remove_leftovers_once(path.parent)
    # The process's number is not enough: two machines that share a disk may have the same.
    return path.with_name(f".{path.name}.{_HOST}-{os.getpid()}-{secrets.token_hex(4)}.tmp")


def is_temporary(path: Path) -> bool:
    """Return whether a path has a name that `temporary_beside` makes."""
    return _TEMPORARY.fullmatch(path.name) is not None


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left half-written in a folder."""
    for path in folder.glob(".*.tmp"):
        with suppress(OSError):
            if _is_abandoned(path):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


_remove_leftovers_once = cache(remove_leftovers)


def _is_abandoned(path: Path) -> bool:
    """Whether the process that made a temporary file is gone, or must be: no file takes a day to write."""
    name = _TEMPORARY.fullmatch(path.name)
    if name is None:
        return False
    if name[1] == _HOST and os.name == "posix":
        try:
            os.kill(int(name[2]), 0)
        except (ProcessLookupError, OverflowError):
            return True
        except PermissionError:
            pass
    return time.time() - path.stat().st_mtime > SECONDS_PER_DAY


def mapped_array(path: Path, temporary: Path, dtype: DTypeLike, shape: tuple[int, ...]) -> np.memmap[Any, Any]:
    """Return a new `.npy` file, which will be `path`, as an array in memory-mapped form.

    Its room on the disk is taken now: a mapped file whose disk fills up kills the process silently.
    """
    # Imported here: every command imports this module, and most of them do without numpy.
    from numpy.lib.format import open_memmap

    with writing(path):
        array: np.memmap[Any, Any] = open_memmap(temporary, mode="w+", dtype=dtype, shape=shape)
        _reserve(temporary)
    return array


def _reserve(path: Path) -> None:
    if hasattr(os, "posix_fallocate"):
        try:
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # a disk that cannot do this
                raise


class _Closable(Protocol):
    def close(self) -> object: ...


_File = TypeVar("_File", bound=_Closable)


@contextmanager
def closing(path: Path | str, file: _File) -> Iterator[_File]:
    """Yield what `path` is written with and close it, which writes the rest; an error of the block goes first."""
    try:
        yield file
    except BaseException:
        with suppress(OSError):
            file.close()
        raise
    with writing(path):
        file.close()
