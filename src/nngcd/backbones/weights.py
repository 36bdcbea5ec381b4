"""Reading weights from a file, safely: tensors only, every shape checked, nothing executed."""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from nngcd.core.errors import DataError, ResourceError

State = dict[str, Tensor]

SUFFIXES = (".safetensors", ".pth", ".pt", ".bin", ".tar")  # .tar: MoCo v3 calls its files .pth.tar

# Where published checkpoints keep their state dict (DINO and iBOT: teacher; MAE and DeiT: model; MoCo v3: state_dict).
WRAPPERS = ("state_dict", "model", "teacher")

# What distributed training, compilation and self-supervised wrappers put before each name (base_encoder: MoCo v3).
PREFIXES = ("module.", "_orig_mod.", "backbone.", "base_encoder.", "model.")

# Classifiers and projection heads: a backbone ends before them.
HEADS = ("head", "fc", "classifier", "head_dist", "last_layer", "mask_token")


def load_weights(model: nn.Module, source: Path) -> None:
    """Copy the weights in a `.safetensors`, `.pth` or `.pt` file into a model without a classifier.

    Wrapping keys and prefixes of the usual training codes are taken off, heads are left out, and names of the original
    releases (for example of DINOv2) become timm's.

    Raises:
        DataError: the file could run code, is damaged, or belongs to another model.
        ResourceError: there is no such file.
    """
    wanted = model.state_dict()
    state = _named_as(wanted, read_state(source))
    if wanted.keys() - state.keys():
        state = _converted_by_timm(model, state)
    state = {name: tensor for name, tensor in state.items() if name in wanted or not _is_head(name)}
    _check(wanted, state, source)
    model.load_state_dict(state)


def read_state(source: Path) -> State:
    """Return the tensors of a weights file by name.

    Raises:
        DataError: the file could run code or is damaged.
        ResourceError: there is no such file.
    """
    if not source.is_file():
        raise ResourceError(f"there is no weights file {source}. Give the path of a .safetensors, .pth or .pt file.")
    if source.suffix not in SUFFIXES:
        raise DataError(f"{source} is not a weights file: expected .safetensors, .pth or .pt.")
    content = _content(source)
    while wrapper := next((key for key in WRAPPERS if isinstance(content.get(key), Mapping)), None):
        content = content[wrapper]
    state = {str(name): tensor for name, tensor in content.items() if isinstance(tensor, Tensor)}
    if not state:
        raise DataError(f"{source} holds no tensors by name; expected a state dict.")
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
        is_safe_format = source.suffix == ".safetensors"
        content = load_file(source) if is_safe_format else torch.load(source, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle can raise anything
        if isinstance(error, pickle.UnpicklingError) and "GLOBAL" in str(error):
            raise DataError(
                f"{source} may run code when loaded, so it is not loaded: it holds more than tensors. "
                "If you trust its author, save its state dict once with safetensors.torch.save_file and give that file."
            ) from error
        raise DataError(f"{source} is damaged or not a weights file ({type(error).__name__}).") from error
    if not isinstance(content, Mapping):
        raise DataError(f"{source} holds a {type(content).__name__}; expected a state dict, that is tensors by name.")
    return content


def _named_as(wanted: Mapping[str, Tensor], state: State) -> State:
    """Return the tensors under the wrappers' prefixes, until the names are those of the model."""
    while not wanted.keys() & state.keys():
        prefix = next((p for p in PREFIXES if any(name.startswith(p) for name in state)), None)
        if prefix is None:
            return state
        state = {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
    return state


def _converted_by_timm(model: nn.Module, state: State) -> State:
    """Return the tensors under timm's names, if timm knows the release they come from."""
    convert = getattr(sys.modules[type(model).__module__], "checkpoint_filter_fn", None)
    if convert is None:
        return state
    try:
        return dict(convert(dict(state), model))
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
        return state  # a foreign file: the shape check names what does not fit


def _is_head(name: str) -> bool:
    return name.partition(".")[0] in HEADS


def _shape(tensor: Tensor | None) -> str:
    return "nothing" if tensor is None else "x".join(str(side) for side in tensor.shape) or "a number"


def _check(wanted: Mapping[str, Tensor], state: Mapping[str, Tensor], source: Path) -> None:
    lines = mismatches(wanted, state)
    if lines:
        raise DataError(
            f"the weights in {source} belong to another model: {len(lines)} of {len(wanted)} tensors do not fit. "
            f"{'; '.join(lines[:3])}."
        )
