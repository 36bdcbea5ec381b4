"""Ways to draw the batches of an epoch other than half labelled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nngcd.methods.contract import Batch
from nngcd.views.loading import balanced_batches, batches_of, weighted_draws

Labels: TypeAlias = NDArray[np.int64]
"""The class of each image, -1 for unlabelled ones."""
Batches: TypeAlias = Sequence[Tensor]
"""The images of each batch of an epoch."""


def batches_by_share(
    labels: Labels, batch_size: int, generator: torch.Generator, *, drop_last: bool = True
) -> tuple[Tensor, ...]:
    """Return batches that draw each unlabelled image with a weight equal to the labelled share of all images.

    This is InfoSieve's sampler. On CUB, where a quarter of the images are labelled, they make up 57 % of a batch.
    """
    labelled_share = float((labels >= 0).mean())
    if not labelled_share:
        return balanced_batches(labels, batch_size, generator, drop_last=drop_last)
    drawn = weighted_draws(labels, len(labels), generator, unlabelled_weight=labelled_share)
    return batches_of(drawn, batch_size, drop_last=drop_last)


def repeated(draw: Callable[[], Batches], n_batches: int) -> list[Tensor]:
    """Return the first batches of as many freshly drawn epochs as are needed, like a loader that starts again."""
    batches: list[Tensor] = []
    while len(batches) < n_batches:
        batches.extend(draw())
    return batches[:n_batches]


def parts(batch: Batch, n_shared: int | None) -> tuple[Batch, Batch]:
    """Return the first `n_shared` images of a batch, and the others, which were drawn for a single term.

    If it is None, all images are both.
    """
    if n_shared is None:
        return batch, batch
    return _images(batch, slice(None, n_shared)), _images(batch, slice(n_shared, None))


def _images(batch: Batch, part: slice) -> Batch:
    features_vbd, labels_b, image_b = batch.features_vbd[:, part], batch.labels_b[part], batch.image_b[part]
    return batch._replace(features_vbd=features_vbd, labels_b=labels_b, image_b=image_b)
