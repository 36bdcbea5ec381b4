"""The weighting of supervised and unsupervised terms."""

from __future__ import annotations

from torch import Tensor


def weighted(unsupervised: dict[str, Tensor], supervised: dict[str, Tensor], share: float) -> dict[str, Tensor]:
    """Return all terms, the unsupervised ones weighted 1 - share and the supervised ones by the share."""
    return {name: (1 - share) * term for name, term in unsupervised.items()} | {
        name: share * term for name, term in supervised.items()
    }
