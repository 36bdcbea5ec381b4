"""A frozen network on a CPU, compiled by OpenVINO: the same numbers to rounding, in a fraction of the time."""

from __future__ import annotations

import copy
import sys
import warnings
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn


class Around(nn.Module):
    """Something cheap around a network, such as a norm of its features; `network` is what costs the time."""

    network: nn.Module


class Compiled:
    """A trunk's network whose core OpenVINO computes; what is around the core stays in torch.

    Args:
        network: a core, or a core with `Around` modules around it.
        core: an already compiled core of equal weights, so that it is not compiled twice.
    """

    def __init__(self, network: nn.Module, core: CompiledCore | None = None) -> None:
        self.core = core or CompiledCore(core_of(network))
        self.network = _with_core(network, self.core)

    def __call__(self, images: Tensor) -> Tensor:
        """Return what the network makes of (B, 3, H, H) images on a CPU."""
        with torch.no_grad():
            hidden: Tensor = self.network(images)
        return hidden

    def around(self, network: nn.Module) -> Compiled:
        """Return the same for a network that has this core and other modules around it."""
        return Compiled(network, self.core)


class CompiledCore(nn.Module):
    """A network in OpenVINO, converted when it is first needed and compiled once for each image size."""

    def __init__(self, core: nn.Module) -> None:
        super().__init__()
        # In a list, so that the weights are not counted as this module's own.
        self._torch = [core]
        self._converted: Any = None
        self._of_side: dict[int, Any] = {}

    def forward(self, images: Tensor) -> Tensor:
        """Return what the core makes of (B, 3, H, H) images."""
        side = images.shape[-1]
        if side not in self._of_side:
            self._of_side[side] = self._compile(images)
        return torch.from_numpy(self._of_side[side](images.contiguous().numpy())[0])

    def _compile(self, images: Tensor) -> Any:  # noqa: ANN401 (OpenVINO is untyped)
        if self._converted is None:
            self._converted = _convert(self._torch[0], images[:1].contiguous())
        model = self._converted.clone()
        model.reshape([-1, *images.shape[1:]])
        options = {
            "INFERENCE_PRECISION_HINT": "f32",
            "NUM_STREAMS": 1,
            # As many as torch, which waits meanwhile: torchrun and OMP_NUM_THREADS are heeded.
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            # A thread that is bound to a core waits there for the process that reads images on it.
            "ENABLE_CPU_PINNING": False,
        }
        return _the_core().compile_model(model, "CPU", options)


def core_of(network: nn.Module) -> nn.Module:
    """Return what is inside all `Around` modules."""
    while isinstance(network, Around):
        network = network.network
    return network


def _with_core(network: nn.Module, core: nn.Module) -> nn.Module:
    """Return a network with another core; buffers are shared, so that later changes to them count."""
    if not isinstance(network, Around):
        return core
    shell = copy.copy(network)
    shell._modules = {**network._modules, "network": _with_core(network.network, core)}
    return shell


def import_openvino() -> Any:  # noqa: ANN401 (OpenVINO is untyped)
    """Return the package `openvino`, or raise `ImportError`."""
    # Its import would start openvino_telemetry, which calls a server and writes into the user's home folder; openvino
    # does without where that package cannot be imported.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # what Python takes for "not there"
    import openvino

    return openvino


@cache
def _the_core() -> Any:  # noqa: ANN401 (OpenVINO is untyped)
    """Return OpenVINO's `Core`, one for the life of the process.

    Each `Core` replaces the thread's stack for signals and at its end restores the one it found. Of two that end in the
    order they began, the second restores the stack that the first has unmapped, and the next signal (Ctrl-C) is a
    segmentation fault.
    """
    return import_openvino().Core()


def _convert(network: nn.Module, image: Tensor) -> Any:  # noqa: ANN401 (OpenVINO is untyped)
    """Return a network as OpenVINO's model, from the operations that one image passes."""
    import_openvino()
    # Not `openvino.convert_model`, which reports every conversion to a server.
    from openvino.frontend import FrontEndManager
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of branches that depend on the shape, which is always the same
        traced: Any = torch.jit.trace(  # type: ignore[no-untyped-call]  # torch has no types for it
            network, (image,), check_trace=False, strict=False
        )
    # Both have names: they are in use until the conversion is over, which Python does not know.
    decoder, frontend = TorchScriptPythonDecoder(traced), FrontEndManager().load_by_framework("pytorch")
    return frontend.convert(frontend.load(decoder))
