"""CIFAR-100: 100 kinds of things in images of 32 pixels, the first 80 of them old."""

from __future__ import annotations

from pathlib import Path

from nngcd.data.split import Split, Truth
from nngcd.datasets.benchmark import TRAINING, Request
from nngcd.datasets.cifar_files import Batches, load_cifar

BATCHES = Batches(
    name="cifar100",
    title="CIFAR-100",
    archive="cifar-100-python.tar.gz",
    folder="cifar-100-python",
    files=("train",),
    test_file="test",
    meta="meta",
    labels_key="fine_labels",
    names_key="fine_label_names",
)


def load(root: Path | None, request: Request = TRAINING) -> tuple[Split, Truth | None]:
    """Return the 50,000 training images of CIFAR-100, half of the images of the 80 old classes labelled.

    Classes are the fine ones. The official order, over which the half is drawn, is that of the file train.

    Args:
        root: the folder `cifar-100-python` of the official archive, the folder that holds it, or one with PNG files
            as `train/CLASS/IMAGE.png` and `test/CLASS/IMAGE.png`.
        request: which images are wanted, and how.
    """
    return load_cifar(root, BATCHES, request)
