"""Writing the view bank: what it holds, how large it is, and the files that are missing of it."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import weakref
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from nngcd.backbones.backbone import Backbone
from nngcd.core import processes
from nngcd.core.atomic import atomic, mapped_array, remove_leftovers, writing
from nngcd.core.errors import DataError, ResourceError, warn
from nngcd.core.progress import Progress
from nngcd.datasets.split import Images, Split
from nngcd.loading import ViewDataset, view_loader
from nngcd.training.bank import DiskBank
from nngcd.training.bank_files import Keys, Places, ViewKeys, find_views, seal, view_file, write_keys
from nngcd.training.extraction import IMAGES_PER_READ, run_trunk
from nngcd.views import Augmentation

CODE_VERSION = 3
"""Raised when views or trunks are computed differently, so that older files are not used."""
VIEW_SEED = 0
"""Kept views are drawn from a fixed seed, so that runs with different seeds share one bank."""
KEY_OF_KIND: dict[Augmentation, bool] = {"crop": False, "distorted": True}
"""Kinds of views that kept files know by these words instead of their names."""
SHARD_BYTES, SHARD_IMAGES = 2**28, 512
"""A file is at most this large, and holds at most so many images: what is lost when the writing is interrupted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BankPlan:
    """A bank that is to be made: of which images, with which views."""

    backbone: Backbone
    split: Split
    n_random: int
    augmentation: Augmentation
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
    def size(self) -> str:
        """How large the bank is, in words."""
        return f"{len(self.images):,} images x {self.n_views} views, {_size(self.n_bytes)}"

    @property
    def ways_out(self) -> str:
        """What makes the bank smaller, or needs none."""
        fewer = "fewer views (--views-per-image 2)"
        if not self.n_random:
            fewer = "one size and two random views (--set 'views.sizes=[1]' --views-per-image 2), effort quick"
        return f"Use {fewer}, fresh ones (--views-per-image online)"

    @property
    def shard_size(self) -> int:
        """Images per file."""
        return max(1, min(SHARD_IMAGES, SHARD_BYTES // self.view_bytes))

    def folder_name(self) -> str:
        """Name what all files of this kind have in common: backbone, preprocessing and code."""
        engine = self.backbone.trunk.engine
        facts = {
            "weights": self.backbone.trunk_fingerprint,
            "preprocessing": self.backbone.preprocessing.to_json(),
            "precision": self.backbone.trunk.precision,
            "view_seed": VIEW_SEED,
            "code": CODE_VERSION,
            # Engines round differently: a run must not find views of another engine one day and not the next.
            **({} if engine == "torch" else {"engine": engine}),
        }
        return f"views-{self.backbone.name}-{_hash(facts)[:16]}"

    def keys(self) -> ViewKeys:
        """Return what names the views of each image, beside what they have in common."""
        contents = [self.images.fingerprint(i) for i in range(len(self.images))]
        centre_n = np.array([_hash("centre", content) for content in contents], dtype=bytes)
        # The place counts: it names the generator of an image's random views.
        kind = KEY_OF_KIND.get(self.augmentation, self.augmentation)
        facts = ([i, content, self.split.may_flip, kind] for i, content in enumerate(contents))
        return ViewKeys(centre_n, np.array([_hash("random", *each) for each in facts], dtype=bytes))


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


def plan_bank(
    backbone: Backbone, split: Split, *, n_random: int, augmentation: Augmentation, limit_gb: float
) -> BankPlan:
    """Return the plan of a bank of this backbone's hidden states.

    Raises:
        ResourceError: the bank would take more room than allowed.
    """
    size = backbone.preprocessing.image_size
    shape = tuple(run_trunk(backbone, torch.zeros(1, 3, size, size, dtype=torch.uint8)).shape[1:])
    plan = BankPlan(backbone=backbone, split=split, n_random=n_random, augmentation=augmentation, hidden_shape=shape)
    if plan.n_bytes > limit_gb * 1e9:
        text = f"the view bank ({plan.size}) takes more than the {limit_gb:g} GB allowed. {plan.ways_out}"
        raise ResourceError(f"{text}, or allow more (--bank-size).")
    return plan


def view_bank(plan: BankPlan, *, cache: Path | None, n_workers: int, progress: Progress) -> DiskBank:
    """Return the bank, with what is missing of it computed and written first.

    Without a cache folder, or with one that cannot be written, the bank lives as long as the returned object. Several
    processes write a part each; they must share the cache folder.

    Raises:
        ResourceError: the bank would take more room than there is.
        DataError: the hidden states do not fit into half precision.
    """
    folder, is_kept = _home(plan, cache)
    keys = plan.keys()
    # The first process looks: another run may be writing, and all must divide the same list.
    found = find_views(folder, keys, plan.n_views, plan.hidden_shape) if processes.is_first() else None
    places: Places = processes.from_first(found)
    todo = _missing(places, plan.shard_size)
    _check_room(plan, folder, sum(shard.n_missing for shard in todo) * plan.view_bytes)
    if todo and plan.n_bytes > SHARD_BYTES:
        progress.tell(f"view bank: {plan.size}, in {folder}")
    own = todo[processes.rank() :: processes.count()]
    progress.start("features", sum(len(shard.image_m) for shard in own) or len(plan.images))
    for shard in own:
        _write_shard(plan, shard, folder, keys, n_workers=n_workers, progress=progress)
    processes.wait()
    progress.finish(f"{'kept in' if todo else 'taken from'} {folder} ({_size(plan.n_bytes)})" if is_kept else "")
    for shard in todo:
        for view, key_m in shard.keys(keys).items():
            places.add(view_file(key_m, view), shard.image_m, view)
    files = [folder / file for file in places.files]
    bank = DiskBank(files, torch.from_numpy(places.file_nv), torch.from_numpy(places.row_nv))
    if not is_kept:
        weakref.finalize(bank, shutil.rmtree, folder, ignore_errors=True)
    return bank


def _missing(places: Places, shard_size: int) -> list[Shard]:
    """Return what is to be computed, file by file."""
    return [
        Shard(image_m, views)
        for image_n, views in places.missing()
        for image_m in np.split(image_n, range(shard_size, len(image_n), shard_size))
    ]


def _home(plan: BankPlan, cache: Path | None) -> tuple[Path, bool]:
    """Return the bank's folder, and whether it is kept."""
    if cache is not None:
        folder = cache / plan.folder_name()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(folder)
            with tempfile.TemporaryFile(dir=folder):
                return folder, True
        except OSError as error:
            reason = f"cannot write {folder}: {error.strerror}"
            warn(f"features are not kept for later runs: {reason} (--cache)")
    if processes.count() > 1:
        raise ResourceError("several processes need a cache folder that all can write: name one with --cache.")
    return Path(tempfile.mkdtemp(prefix="nngcd-bank-")), False


def _check_room(plan: BankPlan, folder: Path, n_bytes: int) -> None:
    """Raise `ResourceError` where what is missing of the bank is larger than the disk."""
    with writing(folder):
        free = shutil.disk_usage(folder).free
    if n_bytes > free:
        room = f"lacks {_size(n_bytes)}, and {folder} has {_size(free)} free"
        raise ResourceError(f"the view bank ({plan.size}) {room}. {plan.ways_out}, or another disk (--cache).")


def _write_shard(
    plan: BankPlan, shard: Shard, folder: Path, keys: ViewKeys, *, n_workers: int, progress: Progress
) -> None:
    """Compute the missing views of a shard's images, and write each view's file whole."""
    dataset = ViewDataset(
        plan.images, plan.backbone.preprocessing, seed=VIEW_SEED, n_random=plan.n_random,
        may_flip=plan.split.may_flip, purpose="cache", augmentation=plan.augmentation,
    )  # fmt: skip
    order, shape = torch.from_numpy(shard.image_m), (len(shard.image_m), *plan.hidden_shape)
    by_view = shard.keys(keys)
    # First, so that every view is found from the moment its file is there; all random views have one list.
    for view in {min(view, 1): view for view in by_view}.values():
        write_keys(folder, by_view[view])
    with ExitStack() as whole:
        # Mapped, so that a shard need not fit into memory.
        paths = [folder / view_file(key_m, view) for view, key_m in by_view.items()]
        temporaries = [whole.enter_context(atomic(path)) for path in paths]
        hidden_vm = [mapped_array(path, temporary, np.float16, shape)
                     for path, temporary in zip(paths, temporaries, strict=True)]  # fmt: skip
        start = 0
        for views_bv in view_loader(dataset, order, batch_size=IMAGES_PER_READ, n_workers=n_workers):
            hidden_vb = run_trunk(plan.backbone, views_bv[:, list(shard.views)].transpose(0, 1)).half().cpu()
            if not torch.isfinite(hidden_vb).all():
                reason = f"the hidden states of {plan.backbone.name} do not fit into half precision"
                raise DataError(f"{reason}, so they cannot be kept. Use --views-per-image online.")
            for hidden_m, hidden_b in zip(hidden_vm, hidden_vb.numpy(), strict=True):
                hidden_m[start : start + len(hidden_b)] = hidden_b
            start += hidden_vb.shape[1]
            progress.advance(hidden_vb.shape[1])
        for hidden_m, path, temporary in zip(hidden_vm, paths, temporaries, strict=True):
            with writing(path):
                hidden_m.flush()
                seal(temporary, path.name)


def _hash(*facts: object) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def _size(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:.1f} MB"
