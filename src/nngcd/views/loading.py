"""Which images make a batch, and how their views reach the trunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from nngcd.core.errors import DataError
from nngcd.core.seeds import numpy_generator
from nngcd.data.split import UNLABELLED, Images
from nngcd.views.augmentations import OF_WHOLE, Picture
from nngcd.views.preprocessing import Augmentation, Preprocessing

_FULL_NAME = f"{DataError.__module__}.{DataError.__qualname__}"


def balanced_batches(
    labels: NDArray[np.int64], batch_size: int, generator: torch.Generator, *, drop_last: bool = True
) -> tuple[Tensor, ...]:
    """Return the images of each batch of an epoch, half of them labelled on average.

    As in the public GCD code (`WeightedRandomSampler`): N draws with replacement, weight 1 for a labelled image and
    n_labelled / n_unlabelled for an unlabelled one. If all images or none are labelled, every image has the same
    weight.
    """
    n_labelled = int((labels != UNLABELLED).sum())
    n_unlabelled = len(labels) - n_labelled
    weight = n_labelled / n_unlabelled if n_labelled and n_unlabelled else 1.0
    drawn = weighted_draws(labels, len(labels), generator, unlabelled_weight=weight)
    return batches_of(drawn, batch_size, drop_last=drop_last)


def weighted_draws(
    labels: NDArray[np.int64], n_draws: int, generator: torch.Generator, *, unlabelled_weight: float
) -> Tensor:
    """Return images drawn with replacement, a labelled one with weight 1."""
    if len(labels) == 0:
        raise ValueError("there are no images to draw batches from")
    weights = torch.ones(len(labels), dtype=torch.float64)
    weights[torch.as_tensor(labels) == UNLABELLED] = unlabelled_weight
    return torch.multinomial(weights, n_draws, replacement=True, generator=generator)


def batches_of(drawn: Tensor, batch_size: int, *, drop_last: bool = True) -> tuple[Tensor, ...]:
    """Return draws cut into batches; fewer than `batch_size` make one small batch."""
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    batches = torch.split(drawn, batch_size)
    is_whole = not drop_last or len(batches) == 1 or len(batches[-1]) == batch_size
    return batches if is_whole else batches[:-1]


@dataclass(eq=False)
class ViewDataset(Dataset[Tensor]):
    """Item i is the views of image i as uint8 (1 + n_random, 3, H, W): the centre view, then the random ones.

    Each item has its own generator, named by seed, purpose and index. So the views depend neither on the order in
    which images are read nor on the number of worker processes. Beyond the N images come the same ones again with
    other random views: items i, N + i, 2 N + i, ... are all of image i.
    """

    images: Images
    preprocessing: Preprocessing
    _: KW_ONLY
    seed: int
    n_random: int
    """Random views per image."""
    may_flip: bool
    """Whether an image and its mirror image show the same thing."""
    purpose: str
    """Purpose of the views; includes the epoch if every epoch needs new ones."""
    augmentation: Augmentation = "crop"

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Tensor:
        generator = numpy_generator(self.seed, self.purpose, index)
        row, short_side = index % len(self.images), self.preprocessing.short_side
        image = self.images.open(row, short_side)
        # Resized once: the crops find nothing left to resize.
        resized = self.preprocessing.resized(image)
        if self.n_random and self.augmentation in OF_WHOLE:
            image = self.images.open(row)
        picture = Picture(image, resized, self.preprocessing, self.may_flip)
        drawn = [picture.random_view(self.augmentation, generator, number=i) for i in range(self.n_random)]
        return torch.stack([self.preprocessing.centre_view(resized), *drawn])


def view_loader(
    dataset: ViewDataset, order: Tensor | Sequence[Tensor], *, batch_size: int = 64, n_workers: int = 0
) -> Iterator[Tensor]:
    """Yield uint8 (B, V, 3, H, W) in the given order.

    Args:
        dataset: what to read.
        order: image indices, either one tensor, cut into batches of `batch_size` with the last one possibly smaller, or
            one tensor per batch.
        batch_size: images per batch where `order` is one tensor.
        n_workers: processes that read images; 0 reads in this one. The result is the same.
    """
    batches = torch.split(order, batch_size) if isinstance(order, Tensor) else order
    loader = DataLoader(
        dataset,
        batch_sampler=[batch.tolist() for batch in batches],
        num_workers=n_workers,
        # The loader draws a seed for its workers, from torch's global state unless it is given a generator.
        generator=torch.Generator(),
    )
    try:
        yield from loader
    except DataError as error:
        # A worker sends its whole traceback as the message; its last line is what happened.
        raise DataError(str(error).strip().splitlines()[-1].removeprefix(f"{_FULL_NAME}: ")) from error
