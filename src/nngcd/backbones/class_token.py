"""The class token's row of a ViT's last block, without computing the other rows.

A model that pools by token reads one row of its last block, so one query, one row of attention and one token in the MLP
are enough. With a single query q per head, keys and values of the other tokens are not needed either. Let x_t be the
hidden state of token t, n_t = (x_t - mean(x_t)) / std(x_t), h_t = g * n_t + s the output of norm1, and C the centring
C(v) = v - mean(v), which is its own transpose and can therefore change sides in a product. For each head

    score_t = q . (W_k h_t + b_k) = (g * W_k^T q) . n_t + const = C(g * W_k^T q) . x_t / std(x_t) + const.

The constant is the same for all tokens, so softmax does not see it. With the attention a_t, whose sum is 1,

    sum_t a_t (W_v h_t + b_v) = W_v (g * sum_t a_t n_t + s) + b_v,    sum_t a_t n_t = C(sum_t (a_t / std(x_t)) x_t).

Per image this costs T H D instead of T D D, and the tokens are only read: no tensor of their size is written, neither
here nor in the gradients of the weights. Where keys are normed (`k_norm`), they alone are computed for all tokens.

`benchmarks/training.py` compares it with timm's block; docs/results/speed.md has the numbers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nngcd.core.torchvision_ops import make_torchvision_importable

make_torchvision_importable()

from timm.layers.mlp import GluMlp, Mlp, SwiGLU  # noqa: E402 (torchvision must be importable first)
from timm.layers.norm import LayerNorm  # noqa: E402
from timm.models import vision_transformer  # noqa: E402

# Other versions of timm keep it elsewhere, and where a transformer finds it is not what timm declares as public.
Attention: type[nn.Module] = vision_transformer.Attention  # type: ignore[attr-defined]

LAYER_NORMS = (nn.LayerNorm, LayerNorm)

# Others, such as those with a global response norm or a spatial gate, let tokens see each other.
MLPS = (Mlp, GluMlp, SwiGLU)

# With one child more or less, as in other versions of timm, a block or its attention does something unknown here.
BLOCK_CHILDREN = {"norm1", "attn", "ls1", "drop_path1", "norm2", "mlp", "ls2", "drop_path2"}
ATTENTION_CHILDREN = {"qkv", "q_norm", "k_norm", "attn_drop", "norm", "proj", "proj_drop"}


def reads_only_class_token(model: nn.Module) -> bool:
    """Whether the features of a transformer depend on nothing but the first token that its last block returns.

    Subclasses are refused: a distilled DeiT also says that it pools by token, and reads two.
    """
    return (
        type(model) is vision_transformer.VisionTransformer
        and model.global_pool == "token"
        and model.attn_pool is None
        and type(model.norm) in (*LAYER_NORMS, nn.Identity)
    )


def is_plain_block(block: nn.Module) -> bool:
    """Whether `class_token_output` computes this block exactly: timm's pre-norm block with timm's own parts."""
    return (
        type(block) is vision_transformer.Block
        and _children(block) == BLOCK_CHILDREN
        and type(block.attn) is Attention
        and _children(block.attn) == ATTENTION_CHILDREN
        and type(block.norm1) in LAYER_NORMS
        and block.norm1.bias is not None
        and type(block.attn.qkv) is nn.Linear
        and type(block.mlp) in MLPS
        # A variance as a difference of moments needs the digits of float32, and attention is not dropped out here.
        and block.attn.qkv.weight.dtype in (torch.float32, torch.float64)
        and not block.training
    )


def class_token_output(block: Any, hidden_btd: Tensor) -> Tensor:  # noqa: ANN401 (timm is untyped)
    """Return `block(hidden_btd)[:, :1]`, equal to rounding in value and gradients, for a block that `is_plain_block`.

    Args:
        block: the last block; its own weights are used.
        hidden_btd: (B, T, D) hidden states that enter the block, class token first.
    """
    attn = block.attn
    # Half precision would have to copy all tokens first, and would cost digits of the scores.
    with torch.autocast(hidden_btd.device.type, enabled=False):
        attended_b1a = _attend(block.norm1, attn, hidden_btd.to(attn.qkv.weight.dtype))
    attended_b1d = attn.proj_drop(attn.proj(attn.norm(attended_b1a)))
    class_b1d = hidden_btd[:, :1] + block.drop_path1(block.ls1(attended_b1d))
    output_b1d: Tensor = class_b1d + block.drop_path2(block.ls2(block.mlp(block.norm2(class_b1d))))
    return output_b1d


def _attend(norm: nn.LayerNorm, attn: Any, hidden_btd: Tensor) -> Tensor:  # noqa: ANN401
    """Return what the class token gathers from all tokens, all heads side by side: (B, 1, heads * head size)."""
    weight_ad, bias = attn.qkv.weight, attn.qkv.bias
    bias = weight_ad.new_zeros(len(weight_ad)) if bias is None else bias
    query_hed, key_hed, value_hed = weight_ad.unflatten(0, (3, attn.num_heads, -1)).unbind()
    query_bias_he, key_bias_he, value_bias_he = bias.unflatten(0, (3, attn.num_heads, -1)).unbind()

    query_bhe = torch.einsum("bd,hed->bhe", norm(hidden_btd[:, 0]), query_hed) + query_bias_he
    query_bhe = attn.q_norm(query_bhe) * attn.scale
    inverse_std_b1t = _inverse_std(hidden_btd, norm.eps)[:, None]
    if isinstance(attn.k_norm, nn.Identity):
        probe_bhd = _centred(torch.einsum("bhe,hed->bhd", query_bhe, key_hed) * norm.weight)
        scores_bht = probe_bhd @ hidden_btd.mT * inverse_std_b1t
    else:
        key_bthe = torch.einsum("btd,hed->bthe", norm(hidden_btd), key_hed) + key_bias_he
        scores_bht = torch.einsum("bhe,bthe->bht", query_bhe, attn.k_norm(key_bthe))
    mean_bhd = _centred(scores_bht.softmax(-1) * inverse_std_b1t @ hidden_btd) * norm.weight + norm.bias
    attended_bhe = torch.einsum("bhd,hed->bhe", mean_bhd, value_hed) + value_bias_he
    attended_b1a: Tensor = attended_bhe.flatten(1)[:, None]
    return attended_b1a


def _inverse_std(hidden_btd: Tensor, eps: float) -> Tensor:
    """Return (B, T): what LayerNorm multiplies each centred token by.

    The difference of the moments multiplies the rounding error by 1 + (mean / std)^2, which stays far below that of a
    bank in half precision; it is several times faster than `F.layer_norm` and `torch.var`, which read the tokens twice.
    """
    n_features = hidden_btd.shape[-1]
    mean_square_bt = torch.linalg.vector_norm(hidden_btd, dim=-1).square() / n_features
    variance_bt = mean_square_bt - hidden_btd.mean(-1).square()
    inverse_std_bt: Tensor = (variance_bt.clamp_min(0) + eps).rsqrt()
    return inverse_std_bt


def _centred(vectors_bhd: Tensor) -> Tensor:
    return vectors_bhd - vectors_bhd.mean(-1, keepdim=True)


def _children(module: nn.Module) -> set[str]:
    return {name for name, _ in module.named_children()}
