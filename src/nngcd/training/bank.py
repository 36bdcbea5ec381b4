"""The view bank: what the frozen trunk makes of a few views of every image, computed once and kept on disk.

The trunk's output for a view never changes, so training that draws from the bank pays for the tail and the heads only.

A bank is a folder of files, each with one view of some images (a shard), in half precision and memory-mapped, next to
lists that say whose views they are (`bank_files`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from nngcd.backbones.sizes import mean_look
from nngcd.core import processes
from nngcd.core.errors import ResourceError
from nngcd.core.progress import Progress
from nngcd.training.bank_files import SEAL_BYTES, read_head

IMAGES_PER_BLOCK = 1024
"""Images of which one view is read at a time where all are; for whitening, a quarter, four and sixteen times as many
were slower."""


class Bank(Protocol):
    """Hidden states of `n_views` views of every image; view 0 is the centre crop, the others are random crops."""

    @property
    def n_views(self) -> int:
        """Views per image."""
        ...

    def take(self, image_b: Tensor, view_b: Tensor) -> Tensor:
        """Return the hidden state of view `view_b` of image `image_b`, for each b."""
        ...


@dataclass(frozen=True, slots=True)
class MemoryBank:
    """A bank that is one tensor: of features that the user brings, or that were computed once and are few numbers."""

    hidden_nv: Tensor

    @property
    def n_views(self) -> int:
        """Views per image."""
        return self.hidden_nv.shape[1]

    def take(self, image_b: Tensor, view_b: Tensor) -> Tensor:
        """Return the hidden state of view `view_b` of image `image_b`, for each b."""
        return self.hidden_nv[image_b, view_b]


@dataclass(frozen=True, slots=True)
class LookBank:
    """A bank of views that were each seen at several sizes.

    View 0 is the mean look at the centre crop, the others are the single looks at all views.
    """

    bank: Bank
    n_sizes: int

    @property
    def n_views(self) -> int:
        """The mean look, and every look."""
        return 1 + self.n_sizes * self.bank.n_views

    def take(self, image_b: Tensor, view_b: Tensor) -> Tensor:
        """Return the hidden state of look `view_b` at image `image_b`, for each b."""
        look_b = (view_b - 1).clamp(min=0)
        hidden_b = self.bank.take(image_b, look_b // self.n_sizes)
        return self._looks(hidden_b, look_b % self.n_sizes, view_b == 0)

    def _looks(self, hidden_bsd: Tensor, size_b: Tensor, is_mean_b: Tensor) -> Tensor:
        """Return the mean of all sizes where that is asked for, elsewhere one size."""
        hidden_bsd = hidden_bsd.float()
        single_bd = hidden_bsd[torch.arange(len(size_b)), size_b]
        return torch.where(is_mean_b[:, None], mean_look(hidden_bsd), single_bd)


@dataclass(frozen=True, slots=True)
class MapLookBank(LookBank):
    """The same of strips of maps, whose mean look is for the stage to make: a single look has 0 in all other cells."""

    cells: tuple[int, ...]
    """Cells of each size."""

    def _looks(self, hidden_bc1l: Tensor, size_b: Tensor, is_mean_b: Tensor) -> Tensor:
        """Return strips with all sizes where the mean is asked for, elsewhere with one size."""
        size_l = torch.arange(self.n_sizes).repeat_interleave(torch.tensor(self.cells))
        is_seen_bl = is_mean_b[:, None] | (size_l == size_b[:, None])
        return hidden_bc1l * is_seen_bl[:, None, None]


@dataclass(eq=False)
class DiskBank:
    """A bank in memory-mapped files: only what a batch asks for is read, and the system keeps in memory what it can.

    All files are mapped at once, and a mapped file can be deleted: the system keeps it until this process ends.

    Raises:
        ResourceError: a file is gone already.
    """

    files: list[Path]
    """Each with one view of some images."""
    file_nv: Tensor
    """The file that holds a view of an image, by its place in `files`."""
    row_nv: Tensor
    """The view's row in that file."""
    _mapped: list[Tensor] = field(init=False)

    def __post_init__(self) -> None:
        self._mapped = [_mapped_file(path) for path in self.files]

    @property
    def n_views(self) -> int:
        """Views per image."""
        return self.file_nv.shape[1]

    def take(self, image_b: Tensor, view_b: Tensor) -> Tensor:
        """Return the hidden state of view `view_b` of image `image_b`, for each b: one copy per file."""
        file_b, row_b = self.file_nv[image_b, view_b], self.row_nv[image_b, view_b]
        hidden_b: Tensor | None = None
        places = {file: (file_b == file).nonzero().flatten() for file in torch.unique(file_b).tolist()}
        for file, place_m in places.items():
            self._announce(file, row_b[place_m].tolist())
        for file, place_m in places.items():
            hidden_m = self._mapped[file].index_select(0, row_b[place_m])
            if hidden_b is None:
                hidden_b = hidden_m.new_empty(len(image_b), *hidden_m.shape[1:])
            hidden_b[place_m] = hidden_m
        assert hidden_b is not None, "a batch has at least one image"
        return hidden_b

    def _announce(self, file: int, rows: list[int]) -> None:
        """Tell the system which rows will be read, so that it fetches all at once and not one after the other."""
        if not hasattr(os, "posix_fadvise"):
            return
        path, hidden_n = self.files[file], self._mapped[file]
        size = hidden_n[0].numel() * hidden_n.element_size()
        with suppress(FileNotFoundError), path.open("rb", buffering=0) as opened:
            start = path.stat().st_size - SEAL_BYTES - len(hidden_n) * size
            for row in rows:
                os.posix_fadvise(opened.fileno(), start + row * size, size, os.POSIX_FADV_WILLNEED)


def mapped_views(
    bank: Bank, n_images: int, function: Callable[[Tensor], Tensor], progress: Progress | None = None
) -> MemoryBank:
    """Return what a function makes of all views of a bank, which is so much less that it fits into memory.

    A block of images is read at a time; of several processes each computes its share.
    """
    progress = progress or Progress()
    own_n = torch.arange(n_images)[processes.share(n_images)]
    hidden_nv: Tensor | None = None
    for place_b in torch.split(torch.arange(len(own_n)), IMAGES_PER_BLOCK):
        image_b = own_n[place_b]
        for view in range(bank.n_views):
            hidden_b = function(bank.take(image_b, torch.full_like(image_b, view)))
            if hidden_nv is None:
                hidden_nv = hidden_b.new_empty(len(own_n), bank.n_views, *hidden_b.shape[1:])
            hidden_nv[place_b, view] = hidden_b
        progress.advance(len(place_b))
    assert hidden_nv is not None, "there is an image for every process"
    return MemoryBank(processes.gather(hidden_nv, n_images))


def _mapped_file(path: Path) -> Tensor:
    """Return the numbers of a file of the bank, read from the disk when they are asked for."""
    try:
        shape, _, start = read_head(path)
        end = start + 2 * math.prod(shape)
        # torch closes the file once it is mapped; numpy keeps it open, and many systems allow no more than a thousand.
        raw = torch.from_file(str(path), shared=False, size=end, dtype=torch.uint8)
    except (OSError, RuntimeError) as error:
        if path.is_file():
            raise
        again = "Repeat the command, or continue a run with `nngcd fit --resume`, to compute it again."
        raise ResourceError(f"R05: {path} was deleted while the cache was in use. {again}") from error
    return raw[start:].view(torch.float16).view(shape)
