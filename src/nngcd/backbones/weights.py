"""Reading weights from a file, safely: tensors only, every shape checked, nothing executed."""

from __future__ import annotations

import hashlib
import pickle
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from nngcd.backbones.checkpoints import State, converted_by_timm, named_as, unwrapped, without_heads
from nngcd.core.errors import DataError, ResourceError

SUFFIXES = (".safetensors", ".pth", ".pt", ".bin", ".tar")  # .tar: MoCo v3 calls its files .pth.tar

# What full checkpoints of DINO, iBOT and MAE hold apart from tensors: the options of the training script, and learning
# rates as numpy numbers. They only hold values; everything else that is not a tensor is refused. numpy 2 has moved the
# function that makes a number.
_NUMBER: Any = np.float64().__reduce__()[0]
PLAIN_VALUES: list[Any] = [
    Namespace,
    np.dtype,
    type(np.dtype(np.float64)),
    (_NUMBER, "numpy.core.multiarray.scalar"),
    (_NUMBER, "numpy._core.multiarray.scalar"),
]


def load_weights(model: nn.Module, source: Path) -> None:
    """Copy the weights in a `.safetensors`, `.pth` or `.pt` file into a model without a classifier.

    Names of the original releases become timm's (`checkpoints`), and heads are left out.

    Raises:
        DataError: the file could run code, is damaged, or belongs to another model.
        ResourceError: there is no such file.
    """
    wanted = model.state_dict()
    named = named_as(wanted, read_state(source))
    state = without_heads(wanted, named)
    if mismatches(wanted, state):
        converted = without_heads(wanted, converted_by_timm(model, named))
        # Of a file that fits neither way, the message shows the nearer one, or the file's own shapes.
        state = min(state, converted, key=lambda candidate: len(mismatches(wanted, candidate)))
    _check(wanted, state, source)
    model.load_state_dict(state)


def read_state(source: Path) -> State:
    """Return the tensors of a weights file by name."""
    if not source.is_file():
        raise ResourceError(f"weights file {source} not found. Give the path of a .safetensors, .pth or .pt file.")
    if source.suffix not in SUFFIXES:
        raise DataError(f"{source} is not a weights file: expected .safetensors, .pth or .pt.")
    content = unwrapped(_content(source))
    state = {str(name): tensor for name, tensor in content.items() if isinstance(tensor, Tensor)}
    if not state:
        raise DataError(f"{source} has no named tensors; give a state dict.")
    return state


def fingerprint(model: nn.Module) -> str:
    """Return the SHA-256 of a model's weights with their names and shapes."""
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def mismatches(wanted: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> list[str]:
    """Return a line for each tensor that is missing, unexpected or of another shape."""
    lines = []
    for name in [*wanted, *(name for name in state if name not in wanted)]:
        expected, actual = (_shape(tensors.get(name)) for tensors in (wanted, state))
        if expected != actual:
            lines.append(f"{name}: expected {expected}, found {actual}")
    return lines


def _content(source: Path) -> Mapping[str, Any]:
    try:
        content = load_file(source) if source.suffix == ".safetensors" else _tensors_of_pickle(source)
    except Exception as error:  # a damaged pickle can raise anything
        if isinstance(error, pickle.UnpicklingError) and "GLOBAL" in str(error):
            raise DataError(
                f"{source} contains more than tensors and could run code, so it was not loaded. "
                "If you trust it, save its state dict with safetensors.torch.save_file and use that file."
            ) from error
        raise DataError(f"{source} is damaged or not a weights file ({type(error).__name__}).") from error
    if not isinstance(content, Mapping):
        raise DataError(f"{source} holds a {type(content).__name__}; give a state dict (named tensors).")
    return content


def _tensors_of_pickle(source: Path) -> Any:  # noqa: ANN401 (a pickle can hold anything)
    with torch.serialization.safe_globals(PLAIN_VALUES):
        return torch.load(source, map_location="cpu", weights_only=True)


def _shape(tensor: Tensor | None) -> str:
    return "nothing" if tensor is None else "x".join(str(side) for side in tensor.shape) or "a number"


def _check(wanted: Mapping[str, Tensor], state: Mapping[str, Tensor], source: Path) -> None:
    lines = mismatches(wanted, state)
    if lines:
        names = "" if wanted.keys() & state.keys() else f" The names in the file: {', '.join([*state][:3])} ..."
        raise DataError(
            f"the weights in {source} belong to another model: {len(lines)} of {len(wanted)} tensors do not match. "
            f"{'; '.join(lines[:3])}.{names}"
        )
