"""Where training runs: one process, or the several that torchrun started."""

from __future__ import annotations

import atexit
import logging
from typing import TYPE_CHECKING

import torch

from nngcd.core import processes
from nngcd.core.cores import launched_number
from nngcd.core.device import Precision

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def launch(device: torch.device, precision: Precision, *, has_stages: bool = False) -> Fabric:
    """Return the Fabric that training runs on; of several processes, each gets its own device and meets the others.

    Methods with stages leave some of their modules without a gradient in some of them, which torch wants to know.
    """
    # Imported here: it takes seconds, in which the data can already be read.
    from lightning_fabric import Fabric
    from lightning_fabric.strategies.ddp import DDPStrategy

    if not processes.is_launched():
        return Fabric(accelerator=device.type, devices=1, precision=precision)
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it greets at length
    n_local = launched_number("LOCAL_WORLD_SIZE", 1)
    fabric = Fabric(
        accelerator=device.type,
        devices=n_local,
        num_nodes=processes.count() // n_local,
        strategy=DDPStrategy(find_unused_parameters=has_stages),
        precision=precision,
    )
    fabric.launch()
    atexit.register(processes.leave)
    return fabric
