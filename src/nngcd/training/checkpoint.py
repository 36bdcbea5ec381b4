"""Checkpoints: the whole state of training in one safetensors file, replaced atomically after every epoch."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from nngcd.core.files import read_tensors, write_tensors
from nngcd.training.learner import Learner

MODEL, MOMENTUM, REMEMBERED = "model.", "momentum.", "remembered."
EPOCHS_DONE = "epochs_done"


def save_checkpoint(path: Path, learner: Learner, optimiser: torch.optim.Optimizer, n_epochs_done: int) -> None:
    """Write model, optimiser momentum, what the method remembers of the images and the number of finished epochs.

    No random state is needed: generators are derived from seed, purpose and epoch (core.seeds). The scale of the loss
    in fp16 is not kept: a resumed run begins with a new one (docs/speed.md).
    """
    tensors = {MODEL + name: tensor for name, tensor in learner.state_dict().items()}
    tensors |= {MOMENTUM + name: buffer for name, buffer in _momentum(learner, optimiser).items()}
    tensors |= {REMEMBERED + name: getattr(learner.method, name) for name in learner.method.remembers}
    write_tensors(path, tensors, {EPOCHS_DONE: str(n_epochs_done)})


def epochs_done(path: Path) -> int:
    """Return the number of finished epochs of a checkpoint; 0 when there is none."""
    return int(read_tensors(path, only_strings=True)[1][EPOCHS_DONE]) if path.is_file() else 0


def load_checkpoint(path: Path, learner: Learner, optimiser: torch.optim.Optimizer) -> int:
    """Restore what `save_checkpoint` wrote and return the number of finished epochs; 0 when there is no checkpoint."""
    if not path.is_file():
        return 0
    tensors, metadata = read_tensors(path)
    learner.load_state_dict({n.removeprefix(MODEL): t for n, t in tensors.items() if n.startswith(MODEL)})
    for name, parameter in learner.named_parameters():
        if MOMENTUM + name in tensors:
            # Laid out in memory as the parameter, as an unbroken run has it: another layout is rounded differently.
            optimiser.state[parameter]["momentum_buffer"] = torch.empty_like(parameter).copy_(tensors[MOMENTUM + name])
    for name in learner.method.remembers:
        device = getattr(learner.method, name).device
        setattr(learner.method, name, tensors[REMEMBERED + name].to(device))
    return int(metadata[EPOCHS_DONE])


def _momentum(learner: Learner, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    buffers = {name: optimiser.state[p].get("momentum_buffer") for name, p in learner.named_parameters()}
    return {name: buffer for name, buffer in buffers.items() if buffer is not None}
