"""Settings for reading data, where nngcd does not guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nngcd.core.errors import ConfigError
from nngcd.core.ranges import Checked, FromOne, Share, ShareBelowOne, WholeFromOne, WholeNotNegative
from nngcd.data.decoding import Decoding
from nngcd.data.image_files import ALLOWED_BAD
from nngcd.data.split import Draw

TABLE_ROLES = ("file_name", "label", "split", "group")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadingSettings(Checked):
    """Settings of reading: labels, files and, for benchmarks, the labelled half; each data set uses those it needs."""

    group = "reading."
    unlabelled_names: tuple[str, ...] = ()
    """Labels, such as unknown, that mean "no label"."""
    category_names: tuple[str, ...] = ()
    """Unclear labels, such as unknown, that are real categories."""
    same: tuple[str, ...] = ()
    """Other spellings of a category, such as "Owl=owl ": the second label is read as the first."""
    label_level: WholeFromOne = 1
    """Level of sub-folders whose names are the categories."""
    allow_bad: Share = ALLOWED_BAD
    """Largest accepted share of missing or unreadable files."""
    labels: str | None = None
    """A table (file_name, label) with the labels of a folder's images; then sub-folders are not categories."""
    image_root: str | None = None
    """The folder that a table's paths are relative to; the folder of the table when absent."""
    columns: tuple[str, ...] = ()
    """Names of a table's columns, such as "label=Klasse"."""
    rest: Literal["auto", "unlabelled", "ignore"] = "auto"
    """Images in the folder that the table does not list. auto: unlabelled with `labels`, otherwise ignored."""
    follow_links: bool = False
    """Whether to follow links that leave the data folder."""
    drop_duplicates: bool = False
    """Whether to use only one of several files with the same content."""
    max_pixels: WholeFromOne | None = None
    """Largest number of pixels of an image; when absent, Pillow's limit of 178,956,970."""
    grey16: str = "per-image"
    """Scale of 16-bit, 32-bit and float images: per-image, or fixed:A-B, where A is black and B is white."""
    n_images: WholeFromOne | None = None
    """Use only about this many images, chosen at random, for a trial; all when absent."""
    sample: WholeFromOne | None = None
    """Train on all labelled images plus others, up to this many in total, then sort all with the trained model. The
    others are drawn at random or, if the data are features, evenly from groups of similar ones. When absent, train on
    all."""
    draw: Draw = "pooled"
    """The way a benchmark's labelled half is drawn: pooled, as in the field, or stratified (half of each old class)."""
    labels_per_class: WholeFromOne | None = None
    """Keep at most this many labels per class, to measure the value of labels; all when absent."""
    long_tail: FromOne | None = None
    """Thin out a benchmark's classes until the largest is this many times the smallest; unchanged when absent."""
    hide_classes: ShareBelowOne = 0.0
    """Use only the labelled images, hide the labels of this share of their classes, which then act as new ones, and
    hide half of the other labels. All images with a hidden label are scored, so that settings can be compared without
    the truth. 0 is off."""
    fold: WholeNotNegative = 0
    """Selects the hidden classes: consecutive folds hide different classes until every class has been hidden once,
    then they are drawn again."""
    decisions: str | None = None
    """Table of labels from a review that replace those of the data; written by `nngcd fit --from-review`."""
    round: WholeFromOne = 1
    """1 for a first run, one more for every `nngcd fit --from-review`; round 2 names new categories new2-001, ..."""

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.labels and self.image_root:
            raise ConfigError(
                "reading.image_root",
                self.image_root,
                "is for tables; with `labels`, the folder is DATA, so leave it out",
            )
        self.decoding, self.name_of, self.column_of  # noqa: B018 (raise when they cannot be read)

    @property
    def decoding(self) -> Decoding:
        """The settings that turn files into images."""
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
                raise ConfigError("reading.columns", role, f"unknown role; choose from {', '.join(TABLE_ROLES)}")
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


DEFAULT = ReadingSettings()
