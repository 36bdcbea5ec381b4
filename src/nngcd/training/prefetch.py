"""Batches made ready by a second thread while the last one is being learnt from."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
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
    is_left = threading.Event()

    def fill() -> None:
        error: BaseException | None = None
        try:
            for item in items:
                _put(ready, item, is_left)
                if is_left.is_set():
                    return
        except BaseException as raised:  # noqa: BLE001 (raised again by the thread that waits)
            error = raised
        _put(ready, _End(error), is_left)

    thread = threading.Thread(target=fill, name="prefetch", daemon=True)
    thread.start()
    try:
        while not isinstance(item := ready.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        is_left.set()
        thread.join()


def _put(ready: queue.Queue[T | _End], item: T | _End, is_left: threading.Event) -> None:
    """Wait for room, unless nobody will take anything any more."""
    while not is_left.is_set():
        try:
            ready.put(item, timeout=0.1)
            return
        except queue.Full:
            continue


def pinned(tensor: Tensor) -> Tensor:
    """Return the tensor in memory from which a GPU copies while it computes; without a GPU, or on it, as it is."""
    return tensor.pin_memory() if torch.cuda.is_available() and tensor.device.type == "cpu" else tensor
