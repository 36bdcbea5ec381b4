"""Checkpoints: the whole state of training in one safetensors file, replaced atomically after every epoch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from nngcd.core.files import write_tensors
from nngcd.core.verified_files import damaged_file, read_tensors
from nngcd.training.learner import Learner

MODEL, MOMENTUM, REMEMBERED = "model.", "momentum.", "remembered."
EPOCHS_DONE = "epochs_done"
START_AGAIN = "Restore it from a backup, or delete it to restart training"


def save_checkpoint(path: Path, learner: Learner, optimiser: torch.optim.Optimizer, n_epochs_done: int) -> None:
    """Write model, optimiser momentum, what the method remembers of the images and the number of finished epochs.

    No random state is needed: generators are derived from seed, purpose and epoch (core.seeds). The scale of the loss
    in fp16 is not kept: a resumed run begins with a new one (docs/guides/speed.md).
    """
    tensors = {MODEL + name: tensor for name, tensor in learner.state_dict().items()}
    for name, parameter in learner.named_parameters():
        if (buffer := optimiser.state[parameter].get("momentum_buffer")) is not None:
            tensors[MOMENTUM + name] = buffer
    tensors |= {REMEMBERED + name: getattr(learner.method, name) for name in learner.method.remembers}
    write_tensors(path, tensors, {EPOCHS_DONE: str(n_epochs_done)})


def epochs_done(path: Path, n_epochs: int) -> int:
    """Return the number of finished epochs of a checkpoint; 0 when there is none."""
    return _epochs_of(path, read_tensors(path)[1], n_epochs) if path.is_file() else 0


def load_checkpoint(path: Path, learner: Learner, optimiser: torch.optim.Optimizer, n_epochs: int) -> int:
    """Restore what `save_checkpoint` wrote and return the number of finished epochs; 0 when there is no checkpoint."""
    if not path.is_file():
        return 0
    tensors, strings = read_tensors(path)
    n_done, method = _epochs_of(path, strings, n_epochs), learner.method
    _check_places(path, tensors, learner.state_dict())
    try:
        learner.load_state_dict({n.removeprefix(MODEL): t for n, t in tensors.items() if n.startswith(MODEL)})
        known = {MOMENTUM + name for name, _ in learner.named_parameters()} | {REMEMBERED + n for n in method.remembers}
        if others := sorted(name for name in tensors if name not in known and not name.startswith(MODEL)):
            raise KeyError(others[0])
        for name, parameter in learner.named_parameters():
            if MOMENTUM + name in tensors:
                # Laid out in memory as the parameter, as an unbroken run has it: another layout is rounded differently.
                buffer = torch.empty_like(parameter).copy_(tensors[MOMENTUM + name].view(parameter.shape))
                optimiser.state[parameter]["momentum_buffer"] = buffer
        for name in method.remembers:
            device = getattr(method, name).device
            setattr(method, name, tensors[REMEMBERED + name].to(device))
    except (KeyError, RuntimeError) as error:
        reason = f"it does not match this run: {' '.join(str(error).split())[:200]}"
        raise damaged_file(path, reason, START_AGAIN) from error
    return n_done


def _check_places(path: Path, tensors: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
    """Refuse lists of the data's length whose numbers are not places of images or groups; -1 means none."""
    longest = max((len(tensor) for tensor in tensors.values() if tensor.ndim), default=0)
    fixed = {MODEL + name for name, tensor in own.items() if tensor.numel()}
    for name in tensors.keys() - fixed:
        tensor = tensors[name]
        if tensor.numel() and not tensor.is_floating_point() and not (-1 <= tensor.min() and tensor.max() < longest):
            raise damaged_file(path, f"{name} has indices out of range", START_AGAIN)


def _epochs_of(path: Path, strings: Mapping[str, str], n_epochs: int) -> int:
    done = strings.get(EPOCHS_DONE, "")
    if not (done.isascii() and done.isdecimal() and len(done) < 10 and int(done) <= n_epochs):
        raise damaged_file(path, f"{EPOCHS_DONE} = {done[:20]!r} of {n_epochs} epochs", START_AGAIN)
    return int(done)
