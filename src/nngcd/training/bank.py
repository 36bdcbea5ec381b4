"""The view bank: what the frozen trunk makes of a few views of every image, computed once and kept on disk.

The trunk's output for a view never changes, so training that draws from the bank pays for the tail and the heads only.

A bank is a folder of files, each with one view of a run of images (a shard), in half precision and memory-mapped. A
file's name is made of everything its content depends on: the images' contents and places, weights, preprocessing, seed
of the views, and this code's version. So methods, runs and seeds share it, an interrupted bank goes on where it
stopped, more views per image add to it, and processes that write the same file at the same time write the same bytes
(each under its own temporary name, renamed when whole).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from numpy.lib.format import read_array_header_1_0, read_magic
from torch import Tensor

from nngcd.backbones.sizes import mean_look


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
    """A bank that is one tensor; for features that the user brings instead of images."""

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
        """Return the feature of look `view_b` at image `image_b`, for each b."""
        look_b = (view_b - 1).clamp(min=0)
        hidden_bsd = self.bank.take(image_b, look_b // self.n_sizes).float()
        single_bd = hidden_bsd[torch.arange(len(look_b)), look_b % self.n_sizes]
        return torch.where(view_b[:, None] == 0, mean_look(hidden_bsd), single_bd)


@dataclass(eq=False)
class DiskBank:
    """A bank in memory-mapped files: only what a batch asks for is read, and the system keeps in memory what it can."""

    files: list[list[Path]]
    """By shard and view."""
    shard_size: int
    """Images per shard; the last one may have fewer."""
    _open: dict[tuple[int, int], Tensor] = field(default_factory=dict)

    @property
    def n_views(self) -> int:
        """Views per image."""
        return len(self.files[0])

    def take(self, image_b: Tensor, view_b: Tensor) -> Tensor:
        """Return the hidden state of view `view_b` of image `image_b`, for each b: one copy per file."""
        shard_b, row_b = image_b // self.shard_size, image_b % self.shard_size
        file_b = shard_b * self.n_views + view_b
        hidden_b: Tensor | None = None
        places = {file: (file_b == file).nonzero().flatten() for file in torch.unique(file_b).tolist()}
        for file, place_m in places.items():
            shard, view = divmod(file, self.n_views)
            self._announce(shard, view, row_b[place_m].tolist())
        for file, place_m in places.items():
            hidden_m = self._mapped(*divmod(file, self.n_views)).index_select(0, row_b[place_m])
            if hidden_b is None:
                hidden_b = hidden_m.new_empty(len(image_b), *hidden_m.shape[1:])
            hidden_b[place_m] = hidden_m
        assert hidden_b is not None, "a batch has at least one image"
        return hidden_b

    def _announce(self, shard: int, view: int, rows: list[int]) -> None:
        """Tell the system which rows will be read, so that it fetches all at once and not one after the other."""
        if not hasattr(os, "posix_fadvise"):
            return
        path, hidden_n = self.files[shard][view], self._mapped(shard, view)
        size = hidden_n[0].numel() * hidden_n.element_size()
        start = path.stat().st_size - len(hidden_n) * size
        with path.open("rb", buffering=0) as file:
            for row in rows:
                os.posix_fadvise(file.fileno(), start + row * size, size, os.POSIX_FADV_WILLNEED)

    def _mapped(self, shard: int, view: int) -> Tensor:
        if (shard, view) not in self._open:
            self._open[shard, view] = _mapped_file(self.files[shard][view])
        return self._open[shard, view]


def _mapped_file(path: Path) -> Tensor:
    """Return the numbers of a file of the bank, read from the disk when they are asked for."""
    with path.open("rb") as file:
        read_magic(file)
        shape, _, _ = read_array_header_1_0(file)
        start = file.tell()
    # torch closes the file once it is mapped; numpy keeps it open, and many systems allow no more than a thousand.
    raw = torch.from_file(str(path), shared=False, size=path.stat().st_size, dtype=torch.uint8)
    return raw[start:].view(torch.float16).view(shape)
