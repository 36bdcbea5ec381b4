"""Images in memory as one array."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nngcd.core.errors import DataError
from nngcd.data.decoding import to_rgb
from nngcd.data.looks import look_of


class ImageArrays:
    """An array of uint8 images, as an `Images`.

    Args:
        array: (n, h, w) greyscale, or (n, h, w, c) with 1, 3 (RGB) or 4 (RGBA) channels.
    """

    def __init__(self, array: NDArray[np.uint8]) -> None:
        is_shaped = array.ndim == 3 or (array.ndim == 4 and array.shape[3] in (1, 3, 4))
        if array.dtype != np.uint8 or not is_shaped:
            raise DataError(
                f"images must be uint8 of shape (n, h, w) or (n, h, w, c) with c = 1, 3 or 4, "
                f"got {array.dtype} of shape {array.shape}."
            )
        self._array = array[..., 0] if array.ndim == 4 and array.shape[3] == 1 else array

    def __len__(self) -> int:
        return len(self._array)

    def open(self, index: int, short_side: int | None = None) -> Image.Image:
        """Return one image in RGB, as large as it is; transparent parts show white."""
        return to_rgb(Image.fromarray(self._array[index]))

    def fingerprint(self, index: int) -> str:
        """Return the sha256 of the shape and the pixels of one image."""
        image = np.ascontiguousarray(self._array[index])
        return hashlib.sha256(repr(image.shape).encode() + image.tobytes()).hexdigest()

    def look(self, index: int) -> bytes:
        """Return the look of one image."""
        return look_of(self.open(index))
