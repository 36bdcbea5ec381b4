"""Batches made ready by a second thread while the last one is being learnt from."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
N_AHEAD = 2


class _End(NamedTuple):
    error: BaseException | None


def prefetched(items: Iterable[T]) -> Iterator[T]:
    """Yield the items in their order, up to `N_AHEAD` of them made in advance; errors arrive where they would have."""
    ready: queue.Queue[T | _End] = queue.Queue(N_AHEAD)
    is_left, taker = threading.Event(), _whose_end_counts(threading.current_thread())

    def is_wanted() -> bool:
        return not is_left.is_set() and taker.is_alive()

    # No daemon: the interpreter ends those in the middle of what they do, and torch then aborts the whole program.
    thread = threading.Thread(target=_fill, args=(ready, items, is_wanted), name="prefetch")
    try:
        thread.start()  # an interrupt may come in the middle of it
        while not isinstance(item := ready.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        is_left.set()
        if thread.is_alive():
            thread.join()


def _fill(ready: queue.Queue[T | _End], items: Iterable[T], is_wanted: Callable[[], bool]) -> None:
    error: BaseException | None = None
    try:
        for item in items:
            if not _put(ready, item, is_wanted):
                return
    except BaseException as raised:  # noqa: BLE001 (raised again by the thread that waits)
        error = raised
    _put(ready, _End(error), is_wanted)


def _put(ready: queue.Queue[T | _End], item: T | _End, is_wanted: Callable[[], bool]) -> bool:
    """Wait for room and return True; return False once nobody will take anything any more."""
    while is_wanted():
        try:
            ready.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False


def _whose_end_counts(taker: threading.Thread) -> threading.Thread:
    """Return the thread after whose end nobody takes anything: a daemon only lives until the program ends."""
    return threading.main_thread() if taker.daemon else taker


def pinned(tensor: Tensor) -> Tensor:
    """Return the tensor in memory from which a GPU copies while it computes; without a GPU, or on it, as it is."""
    return tensor.pin_memory() if torch.cuda.is_available() and tensor.device.type == "cpu" else tensor
