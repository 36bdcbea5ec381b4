"""The view bank: what the frozen trunk makes of a few views of every image, computed once and kept on disk.

The trunk's output for a view never changes, so training that draws from the bank pays for the tail and the heads only.

A bank is a folder of files, each with one view of a run of images (a shard), in half precision and memory-mapped. A
file's name is made of everything its content depends on: the images' contents and places, weights, preprocessing, seed
of the views, and this code's version. So methods, runs and seeds share it, an interrupted bank goes on where it
stopped, more views per image add to it, and processes that write the same file at the same time write the same bytes
(each under its own temporary name, renamed when whole).
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.lib.format import open_memmap
from torch import Tensor

from nngcd.backbones.backbone import Backbone
from nngcd.core import processes
from nngcd.core.errors import DataError, NngcdWarning, ResourceError
from nngcd.core.files import atomic
from nngcd.core.progress import Progress
from nngcd.datasets.split import Images, Split
from nngcd.loading import ViewDataset, view_loader
from nngcd.training.extraction import IMAGES_PER_READ, run_trunk

CODE_VERSION = 2
"""Raised when views or trunks are computed differently, so that older files are not used."""
VIEW_SEED = 0
"""Kept views are drawn from a fixed seed, so that runs with different seeds share one bank."""
SECONDS_PER_DAY = 86_400
SHARD_BYTES, SHARD_IMAGES = 2**28, 512
"""A file is at most this large, and holds at most so many images: what is lost when the writing is interrupted."""


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


@dataclass(eq=False, slots=True)
class DiskBank:
    """A bank in memory-mapped files: only what a batch asks for is read, and the system keeps in memory what it can."""

    files: list[list[Path]]
    """By shard and view."""
    shard_size: int
    """Images per shard; the last one may have fewer."""
    home: tempfile.TemporaryDirectory[str] | None = None
    """Holds a bank that goes with this object; None for one that is kept."""
    _open: dict[tuple[int, int], Tensor] = field(default_factory=dict)

    @property
    def n_views(self) -> int:
        """Views per image."""
        return len(self.files[0])

    def take(self, image_b: Tensor, view_b: Tensor) -> Tensor:
        """Return the hidden state of view `view_b` of image `image_b`, for each b: one read per file, not per image."""
        shard_b, row_b = image_b // self.shard_size, image_b % self.shard_size
        file_b = shard_b * self.n_views + view_b
        hidden_b: Tensor | None = None
        for file in torch.unique(file_b).tolist():
            place_m = (file_b == file).nonzero().flatten()
            hidden_m = self._mapped(*divmod(file, self.n_views)).index_select(0, row_b[place_m])
            if hidden_b is None:
                hidden_b = hidden_m.new_empty(len(image_b), *hidden_m.shape[1:])
            hidden_b[place_m] = hidden_m
        assert hidden_b is not None, "a batch has at least one image"
        return hidden_b

    def _mapped(self, shard: int, view: int) -> Tensor:
        if (shard, view) not in self._open:
            # Copy on write: torch wants memory it may write to, and the file stays as it is.
            self._open[shard, view] = torch.from_numpy(np.load(self.files[shard][view], mmap_mode="c"))
        return self._open[shard, view]


@dataclass(frozen=True, kw_only=True, slots=True)
class BankPlan:
    """A bank that is to be made: of which images, with which views."""

    backbone: Backbone
    split: Split
    n_random: int
    is_strong: bool
    hidden_shape: tuple[int, ...]

    @property
    def images(self) -> Images:
        """What the views are taken of."""
        assert self.split.images is not None
        return self.split.images

    @property
    def n_views(self) -> int:
        """The centre view and the random ones."""
        return 1 + self.n_random

    @property
    def view_bytes(self) -> int:
        """Bytes of one view of one image."""
        return 2 * int(np.prod(self.hidden_shape))

    @property
    def n_bytes(self) -> int:
        """Bytes of the whole bank."""
        return self.view_bytes * self.n_views * len(self.images)

    @property
    def shard_size(self) -> int:
        """Images per file."""
        return max(1, min(SHARD_IMAGES, SHARD_BYTES // self.view_bytes))

    def folder_name(self) -> str:
        """Name what all files of this kind have in common: backbone, preprocessing and code."""
        facts = {
            "weights": self.backbone.trunk_fingerprint,
            "preprocessing": self.backbone.preprocessing.to_json(),
            "precision": self.backbone.trunk.precision,
            "view_seed": VIEW_SEED,
            "code": CODE_VERSION,
        }
        return f"views-{self.backbone.name}-{_short_hash(facts)}"

    def shards(self) -> Iterator[tuple[range, str]]:
        """Give the images of each shard, with a name made of all that its views depend on."""
        for start in range(0, len(self.images), self.shard_size):
            rows = range(start, min(start + self.shard_size, len(self.images)))
            contents = [self.images.fingerprint(i) for i in rows]
            # The place counts: it names the generator of an image's views.
            yield rows, _short_hash([start, contents, self.split.may_flip, self.is_strong])


def plan_bank(backbone: Backbone, split: Split, *, n_random: int, is_strong: bool) -> BankPlan:
    """Return the plan of a bank of this backbone's hidden states."""
    size = backbone.preprocessing.image_size
    shape = run_trunk(backbone, torch.zeros(1, 3, size, size, dtype=torch.uint8)).shape[1:]
    return BankPlan(
        backbone=backbone, split=split, n_random=n_random, is_strong=is_strong, hidden_shape=tuple(shape)
    )  # fmt: skip


def view_bank(plan: BankPlan, *, cache: Path | None, limit_gb: float, n_workers: int, progress: Progress) -> DiskBank:
    """Return the bank, with what is missing of it computed and written first.

    Without a cache folder, or with one that cannot be written, the bank lives as long as the returned object. Several
    processes write a part each; they must share the cache folder.

    Raises:
        ResourceError: the bank would take more room than allowed, or than there is.
        DataError: the hidden states do not fit into half precision.
    """
    folder, home = _home(plan, cache)
    shards = list(plan.shards())
    files = [[folder / f"{name}-{view:03d}.npy" for view in range(plan.n_views)] for _, name in shards]
    missing = {
        shard: [view for view, path in enumerate(paths) if not _is_whole(path, (len(rows), *plan.hidden_shape))]
        for shard, ((rows, _), paths) in enumerate(zip(shards, files, strict=True))
    }
    todo = [shard for shard, views in missing.items() if views]
    n_missing = sum(len(shards[shard][0]) * len(missing[shard]) for shard in todo)
    _check_room(plan, folder, n_missing * plan.view_bytes, limit_gb)
    size = f"{len(plan.images):,} images x {plan.n_views} views, {_gigabytes(plan.n_bytes)}"
    if todo and plan.n_bytes > SHARD_BYTES:
        progress.tell(f"view bank: {size}, in {folder}")
    progress.start("features", sum(len(shards[shard][0]) for shard in todo) or len(plan.images))
    processes.wait()
    for shard in todo[processes.rank() :: processes.count()]:
        _write_shard(plan, shards[shard][0], {view: files[shard][view] for view in missing[shard]}, n_workers, progress)
    processes.wait()
    kept = "" if home else f"{'kept in' if todo else 'taken from'} {folder} ({_gigabytes(plan.n_bytes)})"
    progress.finish(kept)
    return DiskBank(files, plan.shard_size, home)


def _home(plan: BankPlan, cache: Path | None) -> tuple[Path, tempfile.TemporaryDirectory[str] | None]:
    """Return the bank's folder, and the temporary one it lies in unless it is kept."""
    if cache is not None:
        folder = cache / plan.folder_name()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _remove_leftovers(folder)
            with tempfile.TemporaryFile(dir=folder):
                return folder, None
        except OSError as error:
            reason = f"cannot write {folder}: {error.strerror}"
            warnings.warn(f"features are not kept for later runs: {reason} (--cache)", NngcdWarning, stacklevel=3)
    if processes.count() > 1:
        raise ResourceError("several processes need a cache folder that all can write: name one with --cache.")
    home = tempfile.TemporaryDirectory(prefix="nngcd-bank-")
    return Path(home.name), home


def _remove_leftovers(folder: Path) -> None:
    """Remove the unfinished files of processes that were killed; a day is longer than any file takes to write."""
    for path in folder.glob(".*.tmp"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > SECONDS_PER_DAY:
                path.unlink()


def _check_room(plan: BankPlan, folder: Path, n_bytes: int, limit_gb: float) -> None:
    """Raise `ResourceError` where the bank is larger than allowed, or what is missing of it larger than the disk."""
    size = f"the view bank ({len(plan.images):,} images x {plan.n_views} views) takes {_gigabytes(plan.n_bytes)}"
    ways = "Use fewer views (--views-per-image 2), fresh ones (--views-per-image online)"
    if plan.n_bytes > limit_gb * 1e9:
        raise ResourceError(f"{size}, more than the {limit_gb:g} GB allowed. {ways}, or allow more (--bank-size).")
    free = shutil.disk_usage(folder).free
    if n_bytes > free:
        room = f"{_gigabytes(n_bytes)} of it missing, and {folder} has {_gigabytes(free)} free"
        raise ResourceError(f"{size}, {room}. {ways}, or another disk (--cache).")


def _write_shard(plan: BankPlan, rows: range, files: dict[int, Path], n_workers: int, progress: Progress) -> None:
    """Compute the missing views of a shard's images, and write each view's file whole."""
    dataset = ViewDataset(
        plan.images, plan.backbone.preprocessing, seed=VIEW_SEED, n_random=plan.n_random,
        may_flip=plan.split.may_flip, purpose="cache", is_strong=plan.is_strong,
    )  # fmt: skip
    order, shape = torch.arange(rows.start, rows.stop), (len(rows), *plan.hidden_shape)
    with ExitStack() as whole:
        # Mapped, so that a shard need not fit into memory.
        temporaries = [whole.enter_context(atomic(path)) for path in files.values()]
        hidden_vm = [open_memmap(path, mode="w+", dtype=np.float16, shape=shape) for path in temporaries]
        start = 0
        for views_bv in view_loader(dataset, order, batch_size=IMAGES_PER_READ, n_workers=n_workers):
            hidden_vb = run_trunk(plan.backbone, views_bv[:, list(files)].transpose(0, 1)).half().cpu()
            if not torch.isfinite(hidden_vb).all():
                reason = f"the hidden states of {plan.backbone.name} do not fit into half precision"
                raise DataError(f"{reason}, so they cannot be kept. Use --views-per-image online.")
            for hidden_m, hidden_b in zip(hidden_vm, hidden_vb.numpy(), strict=True):
                hidden_m[start : start + len(hidden_b)] = hidden_b
            start += hidden_vb.shape[1]
            progress.advance(hidden_vb.shape[1])
        for hidden_m in hidden_vm:
            hidden_m.flush()


def _is_whole(path: Path, shape: tuple[int, ...]) -> bool:
    """Whether a file is there and of the right shape; a damaged one is simply computed again."""
    try:
        kept = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError):
        return False
    return bool(kept.shape == shape and kept.dtype == np.float16)


def _short_hash(facts: object) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def _gigabytes(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:.1f} MB"
