"""ImageNet-100: 100 classes that the field drew from ImageNet-1k, 50 of them old, in ImageNet's folder tree."""

from __future__ import annotations

from pathlib import Path

from nngcd.data.split import Split, Truth
from nngcd.datasets.benchmark import TRAINING, Listing, Request, split_files
from nngcd.datasets.class_folders import images_by_class
from nngcd.datasets.counts import Part
from nngcd.datasets.official_files import Layout, find_layout
from nngcd.datasets.published_splits import published_split

# A user may give the training folder itself; its test images are next to it.
_FOLDERS: dict[Part, tuple[str, ...]] = {
    "train": ("", "train", "ILSVRC/Data/CLS-LOC/train"),
    "test": ("val", "ILSVRC/Data/CLS-LOC/val", "../val"),
}
_ARCHIVES: dict[Part, str] = {
    "train": "ILSVRC2012_img_train.tar",
    "test": "ILSVRC2012_img_val.tar, sorted into class folders by valprep.sh",
}


def load(root: Path | None, request: Request = TRAINING) -> tuple[Split, Truth | None]:
    """Return the training images of the 100 classes, half of the images of the 50 old ones labelled.

    The official order, over which the half is drawn, is that of torchvision's ImageFolder: by class folder, then by
    file name. Other classes in the tree are left alone, so ImageNet-1k serves as it is, and so does a cut of it.

    Args:
        root: the folder that holds `train/n01443537/*.JPEG` and so on, or that `train` itself; test images
            are in `val` next to it, also in class folders.
        request: which images are wanted, and how.
    """
    class_ids, part = published_split("imagenet100").class_ids, request.part
    layout = Layout(
        needed=tuple(f"{class_id}/" for class_id in class_ids),
        folders=_FOLDERS[part],
        source=f"a folder of images per class, as in ImageNet-1k ({_ARCHIVES[part]})",
    )
    _, folder = find_layout(root, [layout], name="imagenet100", title="ImageNet-100", part=part)
    found = images_by_class(folder, class_ids)
    listing = Listing(
        name="imagenet100",
        file_names=found.file_names,
        classes=found.classes,
        class_names=class_ids,
        problems=found.problems,
    )
    return split_files(listing, folder, request)
