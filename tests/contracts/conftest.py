"""What the contracts of methods share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
import torch
from lightning_fabric import Fabric
from lightning_fabric.accelerators import CPUAccelerator
from lightning_fabric.strategies import SingleDeviceStrategy
from pretended_device import pretended_device


class AnyDevice(CPUAccelerator):
    """Computes on whatever device it is given."""

    def setup_device(self, device):
        """Take it as it is."""


@pytest.fixture
def elsewhere(monkeypatch) -> Callable[[], AbstractContextManager[torch.device]]:
    """Give a context in which fits run on a device that is not the CPU."""

    @contextmanager
    def pretend() -> Iterator[torch.device]:
        with pretended_device() as device, monkeypatch.context() as patch:
            strategy = SingleDeviceStrategy(device, accelerator=AnyDevice())
            patch.setattr("nngcd.runs.preparing.choose_device", lambda name: device)
            patch.setattr("nngcd.runs.preparing.launch", lambda *args, **more: Fabric(strategy=strategy))
            yield device

    return pretend
