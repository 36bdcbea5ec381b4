"""The published old and new classes of the seven benchmarks of the field."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from nngcd.core.errors import DataError, did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSplit:
    """Which classes of a benchmark are old, and how many images are labelled.

    Args:
        name: the name of the benchmark.
        n_classes: the number of classes, old and new.
        old_classes: sorted indices of the old classes; all others are new.
        index_meaning: what an index stands for, in words.
        source: where the split was published.
        n_labelled: the labelled training images of Table I of the NN-GCD paper; exact where it can be recomputed.
        n_unlabelled: the unlabelled ones.
        n_images: all training images, where their number is known exactly.
        n_test: the images of the official test half (for ImageNet and Herbarium, validation).
        counts_rounded_to: the unit the two counts are rounded to; Table I gives some in hundreds only.
        class_ids: the class behind each index, where the benchmark itself is a choice of classes (ImageNet-100).
    """

    name: str
    n_classes: int
    old_classes: tuple[int, ...]
    index_meaning: str
    source: str
    n_labelled: int
    n_unlabelled: int
    n_test: int
    n_images: int | None = None
    counts_rounded_to: int = 1
    class_ids: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """The sha256 of what the split says of the classes, without its descriptions and counts."""
        content = [self.name, self.n_classes, list(self.old_classes), list(self.class_ids)]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def published_names() -> tuple[str, ...]:
    """Return the names of the benchmarks with a published split."""
    return tuple(sorted(_all_splits()))


def published_split(name: str) -> PublishedSplit:
    """Return the published split of a benchmark."""
    found = _all_splits().get(name)
    if found is None:
        names = published_names()
        raise DataError(
            f"unknown published split '{name}'.{did_you_mean(name, names)} Choose from: {', '.join(names)}."
        )
    lists = {key: tuple(value) for key, value in found.items() if isinstance(value, list)}
    return PublishedSplit(name=name, **(found | lists))


@cache
def _all_splits() -> dict[str, dict[str, Any]]:
    text = files("nngcd.datasets").joinpath("published_splits.json").read_text(encoding="utf-8")
    splits: dict[str, dict[str, Any]] = json.loads(text)
    return splits
