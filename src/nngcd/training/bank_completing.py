"""The view bank on disk: what is missing of it is computed and written, then all of it is mapped."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

import numpy as np
import torch

from nngcd.core import processes
from nngcd.core.atomic import remove_leftovers, writing
from nngcd.core.errors import ResourceError, warn
from nngcd.core.progress import Progress
from nngcd.core.words import size
from nngcd.training.bank import DiskBank
from nngcd.training.bank_files import Places, ViewKeys, find_views, view_file
from nngcd.training.bank_plan import SHARD_BYTES, BankPlan
from nngcd.training.bank_writing import Shard, write_shard

MOST_LOOKS = 100
"""Times that a bank is searched again while other runs write it."""


def view_bank(plan: BankPlan, *, cache: Path | None, n_workers: int, progress: Progress) -> DiskBank:
    """Return the bank, with what is missing of it computed and written first.

    Without a cache folder, or with one that cannot be written, the bank lives as long as the returned object. Several
    processes write a part each; they must share the cache folder.

    Raises:
        ResourceError: the bank would take more room than there is.
        DataError: the hidden states do not fit into half precision.
        KeyboardInterrupt: Ctrl-C, with what is kept as its text.
    """
    folder, is_kept = _home(plan, cache)
    keys = plan.keys()
    places, n_missing = _complete(plan, folder, keys, n_workers=n_workers, progress=progress, is_kept=is_kept)
    for is_last in [False] * MOST_LOOKS + [True]:
        bank = _mapped(folder, places, must=is_last or not processes.from_first(folder.is_dir()))
        if processes.in_all(bank is not None):
            break
        # Found in parts that another run has put together since; it may be putting the next ones together now.
        places, _ = _complete(plan, folder, keys, n_workers=n_workers, progress=progress, is_kept=is_kept)
    assert bank, "the last one is mapped, or an error"
    verb = "kept in" if n_missing else "taken from"
    progress.finish(f"{verb} {folder} ({size(plan.n_bytes)})" if is_kept else "")
    if not is_kept:
        weakref.finalize(bank, shutil.rmtree, folder, ignore_errors=True)
    return bank


def _complete(
    plan: BankPlan, folder: Path, keys: ViewKeys, *, n_workers: int, progress: Progress, is_kept: bool
) -> tuple[Places, int]:
    """Return where all views are, and how many of them had to be computed."""
    # The first process looks: another run may be writing, and all must divide the same list.
    found = find_views(folder, keys, plan.n_views, plan.hidden_shape) if processes.is_first() else None
    places: Places = processes.from_first(found)
    todo = _missing(places, plan.shard_size)
    n_missing = sum(shard.n_missing for shard in todo)
    _check_room(plan, folder, n_missing * plan.view_bytes)
    if todo and plan.n_bytes > SHARD_BYTES:
        progress.tell(f"view bank: {plan.size}, in {folder}")
    own = todo[processes.rank() :: processes.count()]
    progress.start("features", sum(len(shard.image_m) for shard in own) or len(plan.images))
    try:
        for shard in own:
            write_shard(plan, shard, folder, keys, n_workers=n_workers, progress=progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_kept_words(plan, folder, keys) if is_kept else "") from None
    processes.wait()
    for shard in todo:
        for view, key_m in shard.keys(keys).items():
            places.add(view_file(key_m, view), shard.image_m, view)
    return places, n_missing


def _mapped(folder: Path, places: Places, *, must: bool) -> DiskBank | None:
    """Return the bank, or None where a file is gone and that is not an error yet.

    Only a mapped file stays: one that was there a moment ago may be deleted by a run that puts its parts together.
    """
    files = [folder / file for file in places.files]
    try:
        return DiskBank(files, torch.from_numpy(places.file_nv), torch.from_numpy(places.row_nv))
    except ResourceError:
        if must:
            raise
        return None


def _kept_words(plan: BankPlan, folder: Path, keys: ViewKeys) -> str:
    """Return how many images' views are in the folder."""
    places = find_views(folder, keys, plan.n_views, plan.hidden_shape)
    n_kept = int((places.file_nv >= 0).all(-1).sum())
    return f"the features of {n_kept:,} of {len(plan.images):,} images are kept in {folder}"


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
            warn(f"features are not kept for later runs: {reason}. To keep them, choose another folder with --cache.")
    if processes.count() > 1:
        raise ResourceError(
            "several processes need a cache folder that all of them can write to. Give one with --cache."
        )
    return Path(tempfile.mkdtemp(prefix="nngcd-bank-")), False


def _check_room(plan: BankPlan, folder: Path, n_bytes: int) -> None:
    """Raise `ResourceError` where what is missing of the bank is larger than the disk."""
    with writing(folder):
        free = shutil.disk_usage(folder).free
    if n_bytes > free:
        room = f"needs {size(n_bytes)} more, but {folder} has only {size(free)} free"
        raise ResourceError(f"the view bank ({plan.size}) {room}. {plan.ways_out}, or another disk (--cache).")
