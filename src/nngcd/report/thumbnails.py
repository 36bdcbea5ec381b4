"""Small JPEG pictures as data URIs, made from images as training sees them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO

import pandas as pd
from PIL import Image

from nngcd.core.cores import n_cores
from nngcd.core.errors import UserError
from nngcd.core.progress import Progress
from nngcd.datasets.split import Images, image_table

SHORT_SIDE, LONG_SIDE, QUALITY = 112, 224, 76
"""Pixels and JPEG quality of a thumbnail: some 5 kB for a photograph."""
URI_START = "data:image/jpeg;base64,"
CHANGED = "changed since the run"


@dataclass(slots=True)
class Thumbnails:
    """Data URIs by row of the results, and why some rows have none."""

    by_row: dict[int, str] = field(default_factory=dict)
    problems: dict[int, str] = field(default_factory=dict)

    @property
    def n_bytes(self) -> int:
        """What the thumbnails add to a page."""
        return sum(map(len, self.by_row.values()))


def make_thumbnails(
    images: Images, results: pd.DataFrame, rows: Sequence[int], progress: Progress | None = None
) -> Thumbnails:
    """Return the thumbnails of some rows; an image that is gone, broken or changed since the run gets a reason instead.

    Args:
        images: the images, in the order of `results`.
        results: one row per image, with `file_name` and `image_id`.
        rows: which images.
        progress: told of every thumbnail; the stage is begun and ended by the caller.
    """
    progress, made, hashes = progress or Progress(), Thumbnails(), []
    with ThreadPoolExecutor(n_cores()) as pool:
        for row, (content_hash, uri, reason) in zip(rows, pool.map(partial(_look, images), rows), strict=True):
            hashes.append(content_hash)
            if reason:
                made.problems[row] = reason
            else:
                made.by_row[row] = uri
            progress.advance()
    shown = results.iloc[list(rows)]
    ids_now = image_table(shown["file_name"].tolist(), hashes)["image_id"]
    for row, id_then, id_now in zip(rows, shown["image_id"], ids_now, strict=True):
        # Another picture under the old name would be a lie about what the model saw.
        if id_then != id_now and made.by_row.pop(row, None):
            made.problems[row] = CHANGED
    return made


def _look(images: Images, row: int) -> tuple[str, str, str]:
    """Return content hash, data URI and an empty reason, or the reason: one lost image must not cost the page."""
    try:
        return images.fingerprint(row), data_uri(thumbnail(images.open(row, SHORT_SIDE))), ""
    except UserError as error:
        return "", "", str(error)
    except OSError as error:
        return "", "", f"cannot be opened ({error.strerror or error})"


def thumbnail(image: Image.Image) -> Image.Image:
    """Return an image with its shorter side at most 112 and its longer one at most 224 pixels, shape kept.

    Images of a few pixels, as of scanned digits, are enlarged by a whole factor instead.
    """
    factor = min(SHORT_SIDE / min(image.size), LONG_SIDE / max(image.size))
    if factor >= 2:
        return image.resize((image.width * int(factor), image.height * int(factor)), Image.Resampling.NEAREST)
    if factor >= 1:
        return image
    size = max(1, round(image.width * factor)), max(1, round(image.height * factor))
    return image.resize(size, Image.Resampling.LANCZOS)


def data_uri(image: Image.Image) -> str:
    """Return an RGB image as a JPEG inside a data URI."""
    file = BytesIO()
    image.save(file, "JPEG", quality=QUALITY, optimize=True)
    return URI_START + base64.b64encode(file.getvalue()).decode()
