"""A device that only pretends to be another one: it computes on the CPU, and refuses whatever a GPU would refuse.

Nothing here has a GPU, yet a tensor left on the wrong device must be found. Tensors that were moved to `DEVICE` are
wrapped; every operation is looked at before it is computed on what is inside. What a GPU forbids is forbidden:
operands on both sides (scalars apart), a generator of the other side, NumPy's hand on the memory.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("lazy:0")
"""The only device besides CPU and meta for which torch runs backward passes in the calling thread; unused otherwise."""
aten = torch.ops.aten
CROSSES_DEVICES = {aten._to_copy, aten.copy_}
OF_SPARSE = {torch.Tensor.to_dense, torch.sparse.mm}
"""Asks a wrapper whether it is sparse; it says no. These are used where nothing is learnt."""
TAKES_CPU_INDICES = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}


class DeviceError(RuntimeError):
    """What a GPU would have refused."""


class Elsewhere(torch.Tensor):
    """A tensor on the pretended device."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> Elsewhere:
        # A sparse one has neither strides nor an offset; from outside it looks dense.
        place = {} if held.is_sparse else {"strides": held.stride(), "storage_offset": held.storage_offset()}
        made = torch.Tensor._make_wrapper_subclass(
            cls, held.size(), dtype=held.dtype, device=DEVICE, requires_grad=held.requires_grad, **place
        )
        made.held = held
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        with _Operations():  # another thread than the one that pretends
            return func(*args, **kwargs or {})


class _Operations(TorchDispatchMode):
    """Looks at every operation, then computes it on the CPU."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
        is_there = any(isinstance(tensor, Elsewhere) for tensor in tensors)
        if is_there and func.overloadpacket not in CROSSES_DEVICES:
            _refuse_mixtures(func, args, tensors)
        if kwargs.get("device") is not None:
            is_there = kwargs["device"].type == DEVICE.type
            kwargs["device"] = torch.device("cpu")
            if is_there and kwargs.get("generator") is not None:
                raise DeviceError(f"{func} on {DEVICE} with a generator of the CPU")
        result = func(*tree_map(_held, args), **tree_map(_held, kwargs))
        if func.overloadpacket == aten.copy_:
            return args[0]
        return tree_map(lambda value: Elsewhere(value) if is_there and _is_plain(value) else value, result)


class _Makers(TorchFunctionMode):
    """Functions that torch carries out below the operations: they would look for a real device, or refuse wrappers."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor) and kwargs.get("device") is not None:
            device = kwargs.pop("device")
            return func(*args, **kwargs).to(device)
        if func is torch.Tensor.new_tensor:
            device = kwargs.pop("device", args[0].device)
            return torch.tensor(*args[1:], **{"dtype": args[0].dtype} | kwargs).to(device)
        if func in OF_SPARSE and all(isinstance(value, Elsewhere) for value in args):
            return Elsewhere(func(*map(_held, args)))
        if func is torch.Tensor.tolist:
            return func(args[0].cpu())
        return func(*args, **kwargs)


def _refuse_mixtures(func, args, tensors) -> None:
    """Raise if an operation takes tensors of both sides; a GPU takes scalars and indices of the CPU as well."""
    here = [tensor for tensor in tensors if not isinstance(tensor, Elsewhere)]
    if func.overloadpacket in TAKES_CPU_INDICES and isinstance(args[0], Elsewhere):
        here = [tensor for tensor in here if not any(tensor is index for index in args[1])]
    changed = args[0] if func._schema.is_mutable and args else None
    if bad := [tensor for tensor in here if tensor.ndim or tensor is changed]:
        shapes = [tuple(tensor.shape) for tensor in bad]
        raise DeviceError(f"{func} takes tensors of {DEVICE} and tensors {shapes} of the CPU")


def _held(value: object) -> object:
    return value.held if isinstance(value, Elsewhere) else value


def _is_plain(value: object) -> bool:
    return isinstance(value, torch.Tensor) and not isinstance(value, Elsewhere)


@contextmanager
def pretended_device() -> Iterator[torch.device]:
    """Within it, tensors can be moved to the device that it gives, and torch takes it for one it knows."""
    optimiser, autocast = importlib.import_module("torch.optim.optimizer"), torch.autocast
    with (
        mock.patch.object(optimiser, "_get_fused_kernels_supported_devices", lambda: [DEVICE.type]),
        mock.patch("torch.autocast", lambda kind, *args, **more: autocast("cpu", *args, **more)),
        _Operations(),
        _Makers(),
    ):
        yield DEVICE
