"""The co-occurrence picture: how similar the images of every two categories are, as a PNG inside a data URI."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nngcd.metrics.cooccurrence import (
    CooccurrenceStatistics,
    cooccurrence_image,
    cooccurrence_statistics,
)
from nngcd.report.findings import Findings

N_PIXELS = 360
RAMP = ((247, 248, 250), (198, 214, 229), (126, 163, 196), (61, 106, 152), (18, 43, 79))
"""From the lowest to the highest similarity; lightness falls evenly, so it also reads in grey."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """The picture and what is needed to read it."""

    uri: str
    lowest: float
    highest: float
    known_share: float
    """Share of the images, and so of the picture's sides, that belongs to known categories."""
    statistics: CooccurrenceStatistics


def make_matrix(findings: Findings) -> Matrix:
    """Return the matrix with known categories before new ones, both by falling size."""
    category_n = findings.category_n
    size_k = np.bincount(category_n, minlength=len(findings.categories))
    is_known_k = (findings.categories["kind"] == "known").to_numpy(dtype=bool)
    rank_k = np.empty(len(size_k), dtype=np.int64)
    rank_k[np.lexsort((-size_k, ~is_known_k))] = np.arange(len(size_k))
    image = cooccurrence_image(findings.features_nd, np.argsort(rank_k[category_n], kind="stable"), N_PIXELS)
    is_known_n = is_known_k[category_n]
    statistics = cooccurrence_statistics(findings.features_nd, category_n, is_known_n, max_pair_images=5000)
    return Matrix(
        png_uri(coloured(image)), float(image.min()), float(image.max()), float(is_known_n.mean()), statistics
    )


def coloured(image: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return (h, w, 3) colours: the lowest value in the first colour of the ramp, the highest in the last."""
    low, high = float(image.min()), float(image.max())
    share = (image - low) / ((high - low) or 1.0)
    stops = np.linspace(0, 1, len(RAMP))
    channels = [np.interp(share, stops, [colour[channel] for colour in RAMP]) for channel in range(3)]
    return np.rint(np.stack(channels, axis=-1)).astype(np.uint8)


def png_uri(pixels_hwc: NDArray[np.uint8]) -> str:
    """Return pixels as a PNG inside a data URI."""
    file = BytesIO()
    Image.fromarray(pixels_hwc).quantize(128).save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
