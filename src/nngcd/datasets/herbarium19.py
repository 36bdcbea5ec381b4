"""Herbarium 19: 683 species of flowering plants with few or many images each, 341 of them old, in a folder tree."""

from __future__ import annotations

from pathlib import Path

from nngcd.data.split import Split, Truth
from nngcd.datasets.benchmark import TRAINING, Listing, Request, split_files
from nngcd.datasets.class_folders import class_folders, images_by_class
from nngcd.datasets.counts import Part
from nngcd.datasets.official_files import Layout, find_layout
from nngcd.datasets.published_splits import published_split

# The labels of the challenge's own test images are secret, so the field tests on its validation images.
_FOLDERS: dict[Part, str] = {"train": "small-train", "test": "small-validation"}


def load(root: Path | None, request: Request = TRAINING) -> tuple[Split, Truth | None]:
    """Return the training images of Herbarium 19, half of the images of the 341 old classes labelled.

    Classes are numbered by their folders sorted as text (0, 1, 10, 100, ...), as the published split does. The
    official order, over which the half is drawn, is that of torchvision's ImageFolder: by class folder, sorted in
    that way, then by file name.

    Args:
        root: the folder that holds `small-train`, and for test images also `small-validation`.
        request: which images are wanted, and how.
    """
    images = _FOLDERS[request.part]
    layout = Layout(
        needed=tuple(f"{name}/" for name in sorted({_FOLDERS["train"], images})),
        folders=("", "herbarium_19", "herbarium-2019-fgvc6"),
        source=f"with {images}/CLASS/IMAGE.jpg as the Herbarium Challenge 2019 gives them (Kaggle, FGVC6)",
    )
    _, folder = find_layout(root, [layout], name="herbarium19", title="Herbarium 19", part=request.part)
    # Also for test images: of a rare class there may be none, which must not move the numbers of the others.
    names = class_folders(folder / _FOLDERS["train"], n_classes=published_split("herbarium19").n_classes)
    found = images_by_class(folder / images, names)
    listing = Listing(
        name="herbarium19",
        file_names=found.file_names,
        classes=found.classes,
        class_names=names,
        problems=found.problems,
    )
    return split_files(listing, folder / images, request)
