"""CIFAR-10: 10 kinds of things in images of 32 pixels, the first 5 of them old."""

from __future__ import annotations

from pathlib import Path

from nngcd.data.split import Split, Truth
from nngcd.datasets.benchmark import TRAINING, Request
from nngcd.datasets.cifar_files import Batches, load_cifar

BATCHES = Batches(
    name="cifar10",
    title="CIFAR-10",
    archive="cifar-10-python.tar.gz",
    folder="cifar-10-batches-py",
    files=tuple(f"data_batch_{number}" for number in range(1, 6)),
    test_file="test_batch",
    meta="batches.meta",
    labels_key="labels",
    names_key="label_names",
)


def load(root: Path | None, request: Request = TRAINING) -> tuple[Split, Truth | None]:
    """Return the 50,000 training images of CIFAR-10, half of the images of the 5 old classes labelled.

    The official order, over which the half is drawn, is that of the batches, data_batch_1 to data_batch_5.

    Args:
        root: the folder `cifar-10-batches-py` of the official archive, the folder that holds it, or one with PNG files
            as `train/CLASS/IMAGE.png` and `test/CLASS/IMAGE.png`.
        request: which images are wanted, and how.
    """
    return load_cifar(root, BATCHES, request)
