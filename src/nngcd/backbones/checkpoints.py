"""From the checkpoints of the original releases to timm's names.

What the releases call their tensors, and where they keep them:

- DINO: a plain state dict, or `teacher` and `student` with `backbone.` (the student: `module.backbone.`) and heads;
- iBOT: `state_dict` with plain names (`checkpoint_teacher.pth`), or as DINO, the student with `masked_embed`;
- DINOv2: a plain state dict with `mask_token` and perhaps `register_tokens`; training writes `teacher` with
  `backbone.`, heads, and blocks in chunks, or `model` with `teacher.backbone.` and `student.backbone.`;
- MoCo v3: `state_dict` with `module.base_encoder.`, `module.momentum_encoder.`, each with its head, and a predictor;
- MAE: `model`, in the full file with a decoder and `mask_token`;
- DeiT III: `model`, the layer scale called `gamma_1` and `gamma_2`.

Where two networks were trained, the one is taken that the authors evaluate: the teacher, and MoCo's base encoder.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

State = dict[str, Tensor]

# Where published checkpoints keep their state dict; of several the first is taken.
WRAPPERS = ("state_dict", "model", "teacher", "student")

# What distributed training, compilation and self-supervised wrappers put before each name; the first is tried first.
PREFIXES = (
    *("module.", "_orig_mod.", "teacher.", "student."),
    *("backbone.", "base_encoder.", "momentum_encoder.", "model."),
)

# Classifiers, projection heads, decoders and what stands in for masked patches: a backbone ends before them.
HEADS = (
    *("head", "fc", "classifier", "head_dist", "last_layer"),
    *("mask_token", "masked_embed"),
    *("decoder_embed", "decoder_pos_embed", "decoder_blocks", "decoder_norm", "decoder_pred"),
)

RENAMINGS = (
    # blocks.<chunk>.<block>: the second number counts through all chunks.
    (re.compile(r"^blocks\.\d+\.(\d+)\."), r"blocks.\1."),
    (re.compile(r"\.gamma_([12])$"), r".ls\1.gamma"),
)


def unwrapped(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the state dict inside a checkpoint, which may stand several keys deep."""
    while wrapper := next((key for key in WRAPPERS if isinstance(content.get(key), Mapping)), None):
        content = content[wrapper]
    return content


def named_as(wanted: Mapping[str, Tensor], state: State) -> State:
    """Return the tensors of a checkpoint under the names of a model, as far as the names alone allow."""
    state = _without_prefixes(wanted, state)
    renamed = {_timm_name(wanted, name): tensor for name, tensor in state.items()}
    # Fewer names than before: they meant something else in this file, and no tensor may be lost unseen.
    return renamed if len(renamed) == len(state) else state


def converted_by_timm(model: nn.Module, state: State) -> State:
    """Return the tensors as timm's own loader would make them, if it knows the release they come from.

    It knows, for example, CLIP and the registers of DINOv2, and it resamples position embeddings to the model's image
    size. It would resample patches of another size too; that is another network, so then nothing is converted.
    """
    convert = getattr(sys.modules[type(model).__module__], "checkpoint_filter_fn", None)
    if convert is None or _has_other_patches(model, state):
        return state
    try:
        return dict(convert(dict(state), model))
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
        return state  # a foreign file: the shape check names what does not fit


def without_heads(wanted: Mapping[str, Tensor], state: State) -> State:
    """Return the tensors that belong to the backbone, and all whose part is unknown."""
    return {name: tensor for name, tensor in state.items() if name in wanted or name.partition(".")[0] not in HEADS}


def _without_prefixes(wanted: Mapping[str, Tensor], state: State) -> State:
    """Return the tensors under the wrappers' prefixes, until the names are those of the model."""
    while not wanted.keys() & state.keys():
        prefix = next((p for p in PREFIXES if any(name.startswith(p) for name in state)), None)
        if prefix is None:
            return state
        state = {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
    return state


def _timm_name(wanted: Mapping[str, Tensor], name: str) -> str:
    if name in wanted:
        return name
    new_name = name
    for pattern, replacement in RENAMINGS:
        new_name = pattern.sub(replacement, new_name)
    return new_name if new_name in wanted else name


def _has_other_patches(model: nn.Module, state: State) -> bool:
    own = model.state_dict().get("patch_embed.proj.weight")
    kernels = [tensor.shape[2:] for tensor in state.values() if tensor.ndim == 4]
    return own is not None and bool(kernels) and own.shape[2:] not in kernels
