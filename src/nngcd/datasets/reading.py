"""How images are read: what the user has to say where we do not guess."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nngcd.core.errors import ConfigError
from nngcd.datasets.image_files import ALLOWED_BAD
from nngcd.datasets.split import Draw


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """Settings of reading: labels, files and, for benchmarks, the labelled half; each data set takes what it needs."""

    unlabelled_names: tuple[str, ...] = ()
    """Unclear labels, such as unknown, that mean "no label"."""
    category_names: tuple[str, ...] = ()
    """Unclear labels that are categories."""
    allow_bad: float = ALLOWED_BAD
    """Share of missing or unreadable files above which the data are refused."""
    image_root: str | None = None
    """The folder a manifest's paths are relative to; the folder of the manifest when absent."""
    n_images: int | None = None
    """Use only about so many images, chosen at random, to try things out; all when absent."""
    draw: Draw = "pooled"
    """How a benchmark's labelled half is drawn: pooled, as the field does, or stratified, half of each old class."""
    labels_per_class: int | None = None
    """Keep the labels of only so many images of each class, to see what labels are worth; all when absent."""
    long_tail: float | None = None
    """Thin a benchmark's classes out until the largest is so many times the smallest; as they are when absent."""
    hide_classes: float = 0.0
    """Share of the labelled classes whose labels are hidden, so that they play the part of new ones, with a fifth of
    the others' labels: only these are scored. To compare settings without looking at the truth; 0 for none."""
    fold: int = 0
    """Which classes are hidden: consecutive folds hide different ones until every class had its turn."""

    def __post_init__(self) -> None:
        if not 0 <= self.allow_bad <= 1:
            raise ConfigError("reading.allow_bad", self.allow_bad, "must be in [0, 1]")
        for name in ("n_images", "labels_per_class", "long_tail"):
            if (value := getattr(self, name)) is not None and not 1 <= value < math.inf:
                raise ConfigError(f"reading.{name}", value, "must be at least 1")
        if not 0 <= self.hide_classes < 1:
            raise ConfigError("reading.hide_classes", self.hide_classes, "must be in [0, 1)")
        if self.fold < 0:
            raise ConfigError("reading.fold", self.fold, "must not be negative")
