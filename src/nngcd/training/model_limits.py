"""Limits on the memory of a model from an unknown source, checked before it is built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor, nn
from torch.nn.modules.module import register_module_buffer_registration_hook as on_buffer
from torch.nn.modules.module import register_module_parameter_registration_hook as on_parameter

from nngcd.core.errors import DataError

SLACK = 2**26
"""Numbers that a network may have beyond twice those of its weights: norms that are folded, what is not saved."""


def check_outputs(n_clusters: int, state: Mapping[str, Tensor]) -> None:
    """Raise `DataError` unless some tensor of the method has one row per cluster, as every method's has."""
    if not any(n_clusters in tensor.shape for name, tensor in state.items() if name.startswith("method.")):
        raise DataError(f"n_clusters = {n_clusters:,}, but no tensor of the method has that many rows")


@contextmanager
def no_larger_than(state: Mapping[str, Tensor]) -> Iterator[None]:
    """Stop the building of a network as soon as it has many more numbers than these weights."""
    n_allowed = 2 * sum(tensor.numel() for tensor in state.values()) + SLACK
    n_built = 0

    def count(module: nn.Module, name: str, tensor: Tensor | None) -> None:
        nonlocal n_built
        n_built += 0 if tensor is None else tensor.numel()
        if n_built > n_allowed:
            raise DataError("it names a network far larger than its weights")

    hooks = [on_parameter(count), on_buffer(count)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
