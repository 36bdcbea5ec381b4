"""Networks from timm, cut where training begins."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nngcd.backbones.class_token import class_token_output, is_plain_block, reads_only_class_token
from nngcd.core.errors import ConfigError, UserError
from nngcd.core.torchvision_ops import make_torchvision_importable

make_torchvision_importable()

from timm.models.convnext import ConvNeXt  # noqa: E402 (torchvision must be importable first)
from timm.models.efficientnet import EfficientNet  # noqa: E402
from timm.models.eva import Eva  # noqa: E402
from timm.models.mobilenetv3 import MobileNetV3  # noqa: E402
from timm.models.regnet import RegNet  # noqa: E402
from timm.models.resnet import ResNet  # noqa: E402
from timm.models.swin_transformer import SwinTransformer  # noqa: E402
from timm.models.vision_transformer import VisionTransformer  # noqa: E402


@dataclass(frozen=True, slots=True)
class Stages:
    """The children of a staged network in the order in which an image passes them, and its last norm layer, if any."""

    stem: tuple[str, ...]
    stages: tuple[str, ...]
    rest: tuple[str, ...]
    final_norm: str = ""


# Networks whose children stand in the order of the data, as folding needs it; equality is tested for each.
FOLDABLE = (EfficientNet, MobileNetV3, ResNet, RegNet)

# The children of a transformer that come after its blocks.
READOUT = ("norm", "attn_pool", "fc_norm", "head_drop", "head", "head_dist")

STAGES: dict[type[nn.Module], Stages] = {
    EfficientNet: Stages(("conv_stem", "bn1"), ("blocks",), ("conv_head", "bn2", "global_pool")),
    MobileNetV3: Stages(
        ("conv_stem", "bn1"), ("blocks",), ("global_pool", "conv_head", "norm_head", "act2", "flatten")
    ),
    ResNet: Stages(("conv1", "bn1", "act1", "maxpool"), ("layer1", "layer2", "layer3", "layer4"), ("global_pool",)),
    ConvNeXt: Stages(("stem",), ("stages",), ("norm_pre", "head"), final_norm="head.norm"),
    RegNet: Stages(("stem",), ("s1", "s2", "s3", "s4"), ("final_conv", "head")),
    SwinTransformer: Stages(("patch_embed",), ("layers",), ("norm", "head"), final_norm="norm"),
}


def split_timm(model: nn.Module, tail_blocks: int = 1, *, tail_norm: bool = False) -> tuple[nn.Module, nn.Module]:
    """Return (trunk, tail) of a network made with `num_classes=0`: `tail(trunk(x))` is `model(x)`.

    The two are equal bit by bit, or to rounding where only the class token of the last block is computed.

    The tail is the last `tail_blocks` blocks (transformers) or stages (others) and all that follows up to the pooled
    feature. It shares its weights with the model. Its parameters can be trained; those of the final norm layer only
    with `tail_norm`, because most authors' code leaves them frozen. The trunk's cannot.

    Raises:
        UserError: this kind of network cannot be cut.
        ConfigError: there are not that many blocks.
    """
    if isinstance(model, (VisionTransformer, Eva)):
        trunk, tail = _split_transformer(model, tail_blocks)
    elif type(model) in STAGES:
        trunk, tail = _split_stages(model, STAGES[type(model)], tail_blocks)
    else:
        raise UserError(
            f"a {type(model).__name__} cannot be cut into a frozen and a trained part. "
            "Use --effort quick, which needs no cut, or a ViT, Swin, EfficientNet, MobileNet, ResNet, RegNet, ConvNeXt."
        )
    # After the last block or stage; most CNNs have none.
    final_norms = (STAGES[type(model)].final_norm,) if type(model) in STAGES else ("norm", "fc_norm")
    for name in filter(None, final_norms):
        model.get_submodule(name).requires_grad_(tail_norm)
    return trunk.requires_grad_(False).eval(), tail.eval()


class TransformerTail(nn.Module):
    """The last blocks of a transformer, its final norm and its pooling.

    Where the pooling reads only the class token, only that token of the last block is computed (`class_token`).

    Args:
        blocks: the last blocks.
        readout: the model without its blocks; its own `norm` and `forward_head` are used, so every pooling works.
        ropes: (n_blocks, ...) rotary position embedding of each block, or None if the model has none.
    """

    ropes: Tensor | None

    def __init__(self, blocks: list[nn.Module], readout: nn.Module, ropes: Tensor | None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.readout: Any = readout
        self.register_buffer("ropes", ropes, persistent=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the (B, D) pooled features of (B, tokens, D) hidden states."""
        *earlier, last = self.blocks
        for index, block in enumerate(earlier):
            hidden = self._run(block, hidden, index)
        if reads_only_class_token(self.readout) and is_plain_block(last):
            hidden = class_token_output(last, hidden)
        else:
            hidden = self._run(last, hidden, len(earlier))
        features: Tensor = self.readout.forward_head(self.readout.norm(hidden))
        return features

    def _run(self, block: nn.Module, hidden: Tensor, index: int) -> Tensor:
        output: Tensor = block(hidden) if self.ropes is None else block(hidden, rope=self.ropes[index])
        return output


class TransformerTrunk(nn.Module):
    """The embedding and the first blocks of a transformer: the model's own `forward_features`, stopped early."""

    def __init__(self, stem: nn.Module) -> None:
        super().__init__()
        self.stem: Any = stem

    def forward(self, images: Tensor) -> Tensor:
        """Return (B, tokens, D) hidden states."""
        hidden: Tensor = self.stem.forward_features(images)
        return hidden


def _split_transformer(model: nn.Module, n: int) -> tuple[nn.Module, nn.Module]:
    transformer: Any = model
    blocks = transformer.blocks
    _check_tail_blocks(n, len(blocks))
    children = dict(model.named_children())
    stem = _part(
        model, {**children, **dict.fromkeys(READOUT), "norm": nn.Identity(), "blocks": blocks[: len(blocks) - n]}
    )
    readout = _part(model, {name: child if name in READOUT else None for name, child in children.items()})
    readout._parameters = dict.fromkeys(model._parameters)
    tail = TransformerTail(list(blocks[len(blocks) - n :]), readout, _ropes(transformer, n)).requires_grad_(True)
    return TransformerTrunk(stem), tail


def _part(model: nn.Module, children: dict[str, nn.Module | None]) -> nn.Module:
    """Return the model with other children: its methods still work, and its weights are shared."""
    part = copy.copy(model)
    part._modules = {**dict.fromkeys(model._modules), **children}
    part._parameters = dict(model._parameters)
    return part


def _ropes(transformer: Any, n: int) -> Tensor | None:  # noqa: ANN401 (timm is untyped)
    """Return the rotary position embedding of each of the last n blocks, which depends only on the image size."""
    if getattr(transformer, "rope", None) is None:
        return None
    with torch.no_grad():
        blank = torch.zeros(1, 3, *transformer.patch_embed.img_size, device=next(transformer.parameters()).device)
        _, rope = transformer.eval()._pos_embed(transformer.patch_embed(blank))
    return rope[-n:] if transformer.rope_mixed else torch.stack([rope] * n)


def _split_stages(model: nn.Module, layout: Stages, n: int) -> tuple[nn.Module, nn.Module]:
    stem, stages, rest = (
        [model.get_submodule(name) for name in part] for part in (layout.stem, layout.stages, layout.rest)
    )
    if len(stages) == 1:
        stages = list(stages[0].children())
    _check_tail_blocks(n, len(stages))
    tail = nn.Sequential(*stages[len(stages) - n :], *rest).requires_grad_(True)
    return nn.Sequential(*stem, *stages[: len(stages) - n]), tail


def _check_tail_blocks(n: int, n_blocks: int) -> None:
    if not 1 <= n <= n_blocks:
        raise ConfigError("tail_blocks", n, f"must be between 1 and {n_blocks}, the blocks or stages of this backbone")
