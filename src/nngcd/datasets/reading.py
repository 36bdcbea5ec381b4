"""How images are read: what the user has to say where we do not guess."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nngcd.core.errors import ConfigError
from nngcd.datasets.image_decoding import Decoding
from nngcd.datasets.image_files import ALLOWED_BAD
from nngcd.datasets.split import Draw

TABLE_ROLES = ("file_name", "label", "split", "group")


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """Settings of reading: labels, files and, for benchmarks, the labelled half; each data set takes what it needs."""

    unlabelled_names: tuple[str, ...] = ()
    """Labels, such as unknown, that mean "no label"."""
    category_names: tuple[str, ...] = ()
    """Unclear labels that are categories."""
    same: tuple[str, ...] = ()
    """Names of one category, as "Owl=owl ": what is labelled with the second gets the first."""
    label_level: int = 1
    """Which level of sub-folders names the category."""
    allow_bad: float = ALLOWED_BAD
    """Share of missing or unreadable files above which the data are refused."""
    labels: str | None = None
    """A table (file_name, label) with the labels of a folder's images; its sub-folders are then only folders."""
    image_root: str | None = None
    """The folder a manifest's paths are relative to; the folder of the manifest when absent."""
    columns: tuple[str, ...] = ()
    """Names of a manifest's columns, as "label=Klasse"."""
    rest: Literal["auto", "unlabelled", "ignore"] = "auto"
    """Images in the folder that the table does not list; auto: unlabelled with `labels`, ignored with a manifest."""
    follow_links: bool = False
    """Whether links that leave the data folder are followed."""
    drop_duplicates: bool = False
    """Whether of files with the same content only one is used."""
    max_pixels: int | None = None
    """Images of more pixels are refused; when absent, Pillow's own limit of 178,956,970."""
    grey16: str = "per-image"
    """Scale of 16-bit, 32-bit and float images: per-image, or fixed:A-B for the values of black and white."""
    n_images: int | None = None
    """Use only about so many images, chosen at random, to try things out; all when absent."""
    draw: Draw = "pooled"
    """How a benchmark's labelled half is drawn: pooled, as the field does, or stratified, half of each old class."""
    labels_per_class: int | None = None
    """Keep the labels of only so many images of each class, to see what labels are worth; all when absent."""
    long_tail: float | None = None
    """Thin a benchmark's classes out until the largest is so many times the smallest; as they are when absent."""
    hide_classes: float = 0.0
    """Use the labelled images only, and hide this share of their classes, which then play the part of new ones, and
    half of the others' labels: all of these are scored. To compare settings without looking at the truth; 0: off."""
    fold: int = 0
    """Which classes are hidden: consecutive folds hide different ones until every class had its turn, then
    the classes are drawn anew."""
    decisions: str | None = None
    """Table of labels from a review that replace those of the data; written by `nngcd fit --from-review`."""
    round: int = 1
    """1, and one more for every `nngcd fit --from-review`; round 2 calls its new categories new2-001, new2-002, ..."""

    def __post_init__(self) -> None:
        if not 0 <= self.allow_bad <= 1:
            raise ConfigError("reading.allow_bad", self.allow_bad, "must be in [0, 1]")
        for name in ("n_images", "labels_per_class", "long_tail", "label_level", "max_pixels", "round"):
            if (value := getattr(self, name)) is not None and not 1 <= value < math.inf:
                raise ConfigError(f"reading.{name}", value, "must be at least 1")
        if not 0 <= self.hide_classes < 1:
            raise ConfigError("reading.hide_classes", self.hide_classes, "must be in [0, 1)")
        if self.fold < 0:
            raise ConfigError("reading.fold", self.fold, "must not be negative")
        if self.labels and self.image_root:
            raise ConfigError("reading.image_root", self.image_root, "the folder is given already; leave it out")
        self.decoding, self.name_of, self.column_of  # noqa: B018 (raise when they cannot be read)

    @property
    def decoding(self) -> Decoding:
        """How files become images."""
        return Decoding(self.max_pixels, _grey_range(self.grey16))

    @property
    def name_of(self) -> Mapping[str, str]:
        """The category of each other spelling."""
        pairs = _pairs("reading.same", self.same, example="Owl=owl")
        return {other: name for name, other in pairs}

    @property
    def column_of(self) -> Mapping[str, str]:
        """The column of a manifest for each role it can have."""
        pairs = dict(_pairs("reading.columns", self.columns, example="file_name=Bild"))
        for role in pairs:
            if role not in TABLE_ROLES:
                raise ConfigError("reading.columns", role, f"there is only {', '.join(TABLE_ROLES)}")
        return {role: pairs.get(role, role) for role in TABLE_ROLES}


def _pairs(setting: str, texts: Sequence[str], *, example: str) -> list[tuple[str, str]]:
    pairs = [text.partition("=") for text in texts]
    for text, (left, _, right) in zip(texts, pairs, strict=True):
        if not left or not right:
            raise ConfigError(setting, text, f"must have two names, as in {example}")
    return [(left, right) for left, _, right in pairs]


def _grey_range(text: str) -> tuple[float, float] | None:
    if text == "per-image":
        return None
    kind, _, numbers = text.partition(":")
    low, _, high = numbers.partition("-")
    try:
        values = float(low), float(high)
    except ValueError:
        values = 0.0, 0.0
    if kind != "fixed" or not values[0] < values[1]:
        raise ConfigError("reading.grey16", text, "must be per-image, or fixed:A-B such as fixed:0-4095")
    return values
