"""Large images, shrunk for a network when they are first looked at and kept until their features are computed.

A photograph of 12 megapixels takes about as long to decode as a small network takes to see it; one that is not a JPEG
takes several times as long. So each is decoded once, and its shrunk copy lies in a temporary folder until then.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from PIL import Image

from nngcd.data.split import Images

MOST_BYTES = 4_000_000_000
"""The room that shrunk images may take, some 7,000 of three sizes of 224 pixels; those beyond are decoded again."""


class Wanted(Protocol):
    """Preprocessing of a network, as far as it concerns the size of an image."""

    @property
    def short_side(self) -> int:
        """Short side in pixels of the image that crops are cut out of."""
        ...

    def resized(self, image: Image.Image) -> Image.Image:
        """Return the image with its short side at `short_side` pixels."""
        ...


@dataclass(frozen=True, slots=True)
class ShrunkImages:
    """Images of which the large ones were shrunk at their first look; what was kept of one is given out once."""

    images: Images
    folder: Path
    short_side: int

    def __len__(self) -> int:
        return len(self.images)

    def open(self, index: int, short_side: int | None = None) -> Image.Image:
        """Return one image in RGB, upright and ready for use; see `Images`."""
        kept = self._take(self.images.fingerprint(index)) if short_side == self.short_side else None
        return kept or self.images.open(index, short_side)

    def fingerprint(self, index: int) -> str:
        """Return the hash of one image's content."""
        return self.images.fingerprint(index)

    def look(self, index: int) -> bytes:
        """Return the look of one image."""
        return self.images.look(index)

    def _take(self, fingerprint: str) -> Image.Image | None:
        path = self.folder / fingerprint
        try:
            with Image.open(path, formats=("PPM",)) as image:
                image.load()
        except OSError:
            return None
        path.unlink(missing_ok=True)
        return image


class Shrinker:
    """Shrinks large images and keeps them.

    Args:
        folder: an empty folder.
        wanted: returns the network's preprocessing; called at the first large image, because loading a network takes
            a while.
    """

    def __init__(self, folder: Path, wanted: Callable[[], Wanted]) -> None:
        self._folder = folder
        self._ask = wanted
        self._asking = threading.Lock()
        self._room = min(MOST_BYTES, shutil.disk_usage(folder).free // 2)

    @property
    def wanted(self) -> Wanted:
        """Preprocessing of the network."""
        with self._asking:
            return self._wanted

    @cached_property
    def _wanted(self) -> Wanted:
        return self._ask()

    def keep(self, fingerprint: str, image: Image.Image, is_right_for: Callable[[int], bool]) -> None:
        """Keep an RGB image for `ShrunkImages`, if it is right for the wanted side and there is room."""
        if not is_right_for(self.wanted.short_side):
            return
        shrunk = self.wanted.resized(image)
        self._room -= 3 * shrunk.width * shrunk.height
        if self._room < 0:
            return
        path = self._folder / fingerprint
        try:
            shrunk.save(path, "PPM")
        except OSError:  # it is decoded again
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def before(self, images: Images, wanted: Wanted) -> Images:
        """Return the images with what is kept of them, if that was shrunk for this network."""
        is_right = "_wanted" in vars(self) and self._wanted == wanted
        return ShrunkImages(images, self._folder, wanted.short_side) if is_right else images
