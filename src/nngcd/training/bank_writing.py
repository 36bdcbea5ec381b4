"""Writing one file of the view bank, in parts: what ends too early loses seconds, not a whole file."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nngcd.core.atomic import atomic, mapped_array, writing
from nngcd.core.errors import DataError
from nngcd.core.progress import Progress
from nngcd.training.bank_files import Keys, ViewKeys, keys_file, seal, view_file, write_keys
from nngcd.training.bank_plan import VIEW_SEED, BankPlan
from nngcd.training.extraction import IMAGES_PER_READ, run_trunk
from nngcd.views.loading import ViewDataset, view_loader

SECONDS_PER_PART = 5.0
"""Time for one part; an interrupted run loses at most this much work, and a few images more."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Images that lack the same views, few enough for one file a view."""

    image_m: NDArray[np.int64]
    views: tuple[int, ...]

    @property
    def n_missing(self) -> int:
        """Views to be computed."""
        return len(self.image_m) * len(self.views)

    def keys(self, keys: ViewKeys) -> dict[int, Keys]:
        """Return the keys of these images by view."""
        return {view: keys.of_view(view)[self.image_m] for view in self.views}


@dataclass(slots=True)
class Parts:
    """Files with the rows of a shard that are computed so far; they go when the shard is whole.

    A part is a small shard like any other: whoever looks for views finds those in it.
    """

    folder: Path
    by_view: Mapping[int, Keys]
    hidden_vm: Sequence[np.memmap[Any, Any]]
    n_kept: int = 0
    _files: list[Path] = field(default_factory=list)
    _last: float = field(default_factory=time.monotonic)

    def keep(self, n_rows: int, *, at_once: bool = False) -> None:
        """Write the rows up to this one that no part has yet, if some seconds have passed or it must be at once."""
        # The last rows come with the whole file. A part with all rows would have its name, and take it along.
        is_due = time.monotonic() - self._last > SECONDS_PER_PART and n_rows < len(self.hidden_vm[0])
        if not (is_due or at_once) or n_rows == self.n_kept:
            return
        rows = slice(self.n_kept, n_rows)
        key_views = {view: key_m[rows] for view, key_m in self.by_view.items()}
        self._files += write_lists(self.folder, key_views)
        for (view, key_r), hidden_m in zip(key_views.items(), self.hidden_vm, strict=True):
            path = self.folder / view_file(key_r, view)
            with atomic(path) as temporary:
                part = mapped_array(path, temporary, np.float16, (len(key_r), *hidden_m.shape[1:]))
                part[:] = hidden_m[rows]
                _finish(part, path, temporary)
            self._files.append(path)
        self.n_kept, self._last = n_rows, time.monotonic()

    def remove(self) -> None:
        """Remove all parts."""
        for path in reversed(self._files):
            path.unlink(missing_ok=True)


def write_lists(folder: Path, by_view: Mapping[int, Keys]) -> list[Path]:
    """Write down whose views will be in the files, and return the lists; all random views have one."""
    for view in {min(view, 1): view for view in by_view}.values():
        write_keys(folder, by_view[view])
    return [folder / keys_file(key_m) for key_m in by_view.values()]


def write_shard(
    plan: BankPlan, shard: Shard, folder: Path, keys: ViewKeys, *, n_workers: int, progress: Progress
) -> None:
    """Compute the missing views of a shard's images, and write each view's file whole.

    Raises:
        DataError: the hidden states do not fit into half precision.
        KeyboardInterrupt: Ctrl-C; the rows so far are kept.
    """
    shape, by_view = (len(shard.image_m), *plan.hidden_shape), shard.keys(keys)
    paths = [folder / view_file(key_m, view) for view, key_m in by_view.items()]
    with ExitStack() as whole:
        # Mapped, so that a shard need not fit into memory.
        temporaries = [whole.enter_context(atomic(path)) for path in paths]
        hidden_vm = [mapped_array(*pair, np.float16, shape) for pair in zip(paths, temporaries, strict=True)]
        parts, n_rows = Parts(folder, by_view, hidden_vm), 0
        try:
            for hidden_vb in _computed(plan, shard, n_workers=n_workers):
                rows = slice(n_rows, n_rows + hidden_vb.shape[1])
                for hidden_m, hidden_b in zip(hidden_vm, hidden_vb, strict=True):
                    hidden_m[rows] = hidden_b
                n_rows = rows.stop
                parts.keep(n_rows)
                progress.advance(hidden_vb.shape[1])
        except KeyboardInterrupt:
            parts.keep(n_rows, at_once=True)
            raise
        # First, so that every view is found from the moment its file is there.
        write_lists(folder, by_view)
        for hidden_m, path, temporary in zip(hidden_vm, paths, temporaries, strict=True):
            _finish(hidden_m, path, temporary)
    parts.remove()


def _computed(plan: BankPlan, shard: Shard, *, n_workers: int) -> Iterator[NDArray[np.float16]]:
    """Yield the hidden states (V, B, ...) of the missing views, some images at a time."""
    dataset = ViewDataset(
        plan.images, plan.backbone.preprocessing, seed=VIEW_SEED, n_random=plan.n_random,
        may_flip=plan.split.may_flip, purpose="cache", augmentation=plan.augmentation,
    )  # fmt: skip
    order = torch.from_numpy(shard.image_m)
    for views_bv in view_loader(dataset, order, batch_size=IMAGES_PER_READ, n_workers=n_workers):
        hidden_vb = run_trunk(plan.backbone, views_bv[:, list(shard.views)].transpose(0, 1)).half().cpu()
        if not torch.isfinite(hidden_vb).all():
            reason = f"the hidden states of {plan.backbone.name} do not fit into half precision"
            raise DataError(f"{reason}, so they cannot be kept. Use --views-per-image online.")
        yield hidden_vb.numpy()


def _finish(hidden_m: np.memmap[Any, Any], path: Path, temporary: Path) -> None:
    """Write what is still in memory, and the seal."""
    with writing(path):
        hidden_m.flush()
        seal(temporary, path.name)
