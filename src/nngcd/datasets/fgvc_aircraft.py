"""FGVC-Aircraft: 100 variants of aircraft, 50 of them old, in the official file layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nngcd.core.errors import DataError, did_you_mean
from nngcd.data.split import Split, Truth
from nngcd.datasets.benchmark import TRAINING, Listing, Request, split_files
from nngcd.datasets.counts import Part
from nngcd.datasets.official_files import Layout, find_layout, read_lines, read_pairs

_IMAGES: dict[Part, str] = {"train": "images_variant_trainval.txt", "test": "images_variant_test.txt"}
_VARIANTS = "variants.txt"


def load(root: Path | None, request: Request = TRAINING) -> tuple[Split, Truth | None]:
    """Return the images of the trainval half of FGVC-Aircraft, half of those of the 50 old variants labelled.

    Classes are the variants, the finest of the levels, numbered by their sorted names as the published split does.
    The official order, over which the half is drawn, is that of images_variant_trainval.txt. Images are read as they
    are, with the line of 20 pixels at the bottom that names the photographer: the field's code does not cut it off.

    Args:
        root: the folder `fgvc-aircraft-2013b` of the official archive, its `data`, or the folder that holds it.
        request: which images are wanted, and how.
    """
    table = _IMAGES[request.part]
    layout = Layout(
        needed=(table, _VARIANTS, "images/"),
        folders=("", "data", "fgvc-aircraft-2013b/data"),
        source="as the official archive fgvc-aircraft-2013b.tar.gz unpacks them",
    )
    _, folder = find_layout(root, [layout], name="fgvc_aircraft", title="FGVC-Aircraft", part=request.part)
    variants = sorted(read_lines(folder / _VARIANTS))
    images = read_pairs(folder / table)
    listing = Listing(
        name="fgvc_aircraft",
        file_names=[f"{image_id}.jpg" for image_id in images],
        classes=_classes(list(images.values()), variants, folder / table),
        class_names=variants,
    )
    return split_files(listing, folder / "images", request)


def _classes(names: list[str], variants: list[str], path: Path) -> NDArray[np.int64]:
    places = {variant: place for place, variant in enumerate(variants)}
    unknown = [name for name in names if name not in places]
    if unknown:
        raise DataError(
            f"'{path}' has a variant '{unknown[0]}' not in {_VARIANTS}.{did_you_mean(unknown[0], variants)}"
        )
    return np.array([places[name] for name in names], dtype=np.int64)
