"""Hybrid sparse regularisation: few non-zero weights, in few rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

import torch
from torch import Tensor

from nngcd.core.errors import ConfigError, warn

Frobenius = Literal["squared", "norm"]


def hybrid_sparse_norm(weights: Iterable[Tensor], *, l1_share: float = 0.6, frobenius: Frobenius = "squared") -> Tensor:
    """Return the sum over weights of beta |W|_1 + (1 - beta)(|W|_2,1 - |W|_F^2): NN-GCD, Eq. (30) without its gamma.

    Squared, as printed and in the authors' code, the Frobenius part is unbounded below: see `warn_if_unbounded`. The
    L2,1-2 penalty it stems from has the plain norm, which never exceeds |W|_2,1 and so keeps the whole above 0.
    Subgradients never make a weight exactly 0: measure sparsity at a threshold.

    Args:
        weights: of the trained layers; the first axis (outputs) is the row, all others are joined.
        l1_share: beta; 0.6 in the paper (hyper-parameter study).
        frobenius: `squared` (paper) or `norm` (bounded).

    Raises:
        ConfigError: no such Frobenius part.
    """
    if frobenius not in get_args(Frobenius):
        raise ConfigError("frobenius", frobenius, f"must be one of {', '.join(get_args(Frobenius))}")
    return sum((_norm(weight, l1_share, frobenius) for weight in weights), start=torch.zeros(()))


def warn_if_unbounded(weight_decay: float, gamma: float, l1_share: float, frobenius: Frobenius) -> None:
    """Warn when the squared Frobenius part outgrows the weight decay, so that weights may grow without end.

    Its gradient is -2 gamma (1 - beta) W against the optimiser's +weight_decay W; what remains of the norm grows only
    linearly. The paper's gamma 3e-5 and beta 0.6 give 2.4e-5, below the authors' weight decay of 5e-5.
    """
    push = 2 * gamma * (1 - l1_share)
    if frobenius == "squared" and push > 0 and weight_decay <= push:
        warn(
            f"weight decay {weight_decay:g} does not exceed 2 * gamma * (1 - l1_share) = {push:g}: the sparse "
            "regulariser can make weights grow without limit. Raise the weight decay, lower gamma, or use the plain "
            "Frobenius norm (frobenius='norm')."
        )


def _norm(weight: Tensor, l1_share: float, frobenius: Frobenius) -> Tensor:
    # All from two reductions: every step reads every weight of the head, so each pass over them counts on a CPU.
    # By rows: over millions of float32 numbers at once, torch's norm is wrong in the third digit.
    rows = weight.reshape(len(weight), -1)
    l1: Tensor = torch.linalg.vector_norm(rows, ord=1, dim=1).sum()
    row_norm: Tensor = torch.linalg.vector_norm(rows, dim=1)
    energy: Tensor = row_norm.square().sum() if frobenius == "squared" else torch.linalg.vector_norm(row_norm)
    return l1_share * l1 + (1 - l1_share) * (row_norm.sum() - energy)
