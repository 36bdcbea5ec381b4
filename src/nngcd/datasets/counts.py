"""The images of a benchmark counted, against what Table I of the paper and the official halves should have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nngcd.core.errors import warn
from nngcd.data.split import Draw, Split
from nngcd.datasets.published_splits import PublishedSplit

Part = Literal["train", "test"]
"""Which images of a benchmark: those to learn from, or the official test images (validation where tests are secret)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageCount:
    """One number of a benchmark: how many there should be, to within `tolerance`, and how many were found."""

    what: str
    expected: int
    found: int
    tolerance: int = 0

    @property
    def is_right(self) -> bool:
        """Whether the number found is the one expected."""
        return abs(self.found - self.expected) <= self.tolerance

    @property
    def expected_words(self) -> str:
        """The expected number as text, `about` where it is not known exactly."""
        return f"{'about ' if self.tolerance else ''}{self.expected:,}"


def count_images(
    split: Split, published: PublishedSplit, *, part: Part = "train", draw: Draw = "pooled"
) -> list[ImageCount]:
    """Return how many images of one part there are: labelled, unlabelled and, where that is known, in all; or test."""
    if part == "test":
        return [ImageCount(what="test", expected=published.n_test, found=len(split))]
    # Table I does not say whether it rounds or cuts, so less than one unit to each side is right; of 1, nothing.
    # Drawn by class, the half is rounded once per old class.
    tolerance = published.counts_rounded_to - 1 + (split.n_old if draw == "stratified" else 0)
    counts = [
        ImageCount(what="labelled", expected=published.n_labelled, found=split.n_labelled, tolerance=tolerance),
        ImageCount(what="unlabelled", expected=published.n_unlabelled, found=split.n_unlabelled, tolerance=tolerance),
    ]
    if published.n_images is not None:
        counts.append(ImageCount(what="in all", expected=published.n_images, found=len(split)))
    return counts


def warn_of_counts(split: Split, published: PublishedSplit, *, part: Part, draw: Draw) -> None:
    """Warn when a copy has other counts than published, or when its labelled half is not drawn as the field does."""
    counts = count_images(split, published, part=part, draw=draw)
    about = "about " if counts[0].tolerance else ""
    expected = about + _words([f"{count.expected:,} {count.what}" for count in counts])
    found = _words([f"{count.found:,} {count.what}" for count in counts])
    drawn = "stratified draw: " if draw == "stratified" and part == "train" else ""
    if not all(count.is_right for count in counts):
        text = f"{drawn}'{split.name}' should have {expected}, found {found}. Check that the copy is complete. "
    elif drawn:
        text = f"{drawn}'{split.name}' has {found}; the published draw gives {expected}. "
    else:
        return
    warn(text + "Its scores cannot be compared with published ones.")


def _words(parts: list[str]) -> str:
    """Return `1 labelled and 2 unlabelled images, 3 in all`."""
    return ", ".join([" and ".join(parts[:2]) + " images", *parts[2:]])
