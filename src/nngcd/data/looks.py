"""The look of an image: its colours in 8 x 8 cells, a perceptual hash that survives saving, resizing and brightness."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIDE = 8
N_VALUES = 3 * SIDE * SIDE
LEAST_CONTRAST = 6.0
"""Grey levels. Below this an image is nearly uniform, and noise would decide what it looks like."""


def look_of(image: Image.Image, box: tuple[float, float, float, float] | None = None) -> bytes:
    """Return the look of an upright RGB or greyscale image: the mean colour of each cell, row by row.

    Args:
        image: of any size.
        box: the part that shows the picture; a JPEG decoded at an eighth of its size has a filled-up rim.
    """
    small = image.resize((SIDE, SIDE), Image.Resampling.BOX, box=box)
    return small.convert("RGB").tobytes()


def look_vectors(looks: Sequence[bytes]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return (n, d) vectors and (n,) whether there is enough to see to compare them.

    Half the squared distance of two vectors is about 1 for unrelated images and 0 for copies. A plane is taken out of
    each colour, so that light from one side does not count, and the rest is divided by its contrast, so that brightness
    does not matter. The mean colours come after it on the same scale: a red box is not a green one.
    """
    cells_nsc = np.frombuffer(b"".join(looks), np.uint8).reshape(len(looks), SIDE * SIDE, 3).astype(np.float32)
    plane_sk = _plane()
    detail_nsc = cells_nsc - np.einsum("sk,tk,ntc->nsc", plane_sk, plane_sk, cells_nsc, optimize=True)
    contrast_n = np.sqrt((detail_nsc**2).mean((1, 2)))
    colour_nc = cells_nsc.mean(1) - cells_nsc.mean((1, 2))[:, None]
    vector_nd = np.concatenate([detail_nsc.reshape(len(looks), N_VALUES), SIDE * colour_nc], 1)
    length_n1 = np.maximum(contrast_n, LEAST_CONTRAST)[:, None] * np.sqrt(N_VALUES)
    return (vector_nd / length_n1).astype(np.float32), contrast_n >= LEAST_CONTRAST


def _plane() -> NDArray[np.float32]:
    """Return (cells, 3) an orthonormal basis of constant, horizontal and vertical slope."""
    step = np.arange(SIDE) - (SIDE - 1) / 2
    basis = np.stack([np.ones(SIDE * SIDE), np.tile(step, SIDE), np.repeat(step, SIDE)], 1)
    plane: NDArray[np.float32] = (basis / np.linalg.norm(basis, axis=0)).astype(np.float32)
    return plane
