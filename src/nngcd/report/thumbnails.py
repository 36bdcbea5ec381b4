"""Small JPEG pictures as data URIs, made from images as training sees them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import pandas as pd

from nngcd.core.cores import n_cores
from nngcd.core.errors import UserError
from nngcd.core.progress import Progress
from nngcd.data.sightings import recall
from nngcd.data.split import Images, image_table
from nngcd.data.thumbnails import SHORT_SIDE, thumbnail_jpeg
from nngcd.results.images import CHANGED

URI_START = "data:image/jpeg;base64,"


@dataclass(slots=True)
class Thumbnails:
    """Data URIs by row of the results, and why some rows have none."""

    by_row: dict[int, str] = field(default_factory=dict)
    problems: dict[int, str] = field(default_factory=dict)

    @property
    def n_bytes(self) -> int:
        """Bytes that the thumbnails add to a page."""
        return sum(map(len, self.by_row.values()))


def make_thumbnails(
    images: Images, results: pd.DataFrame, rows: Sequence[int], progress: Progress | None = None
) -> Thumbnails:
    """Return the thumbnails of some rows; an image that is gone, broken or changed since the run gets a reason instead.

    Args:
        images: the images, in the order of `results`.
        results: one row per image, with `file_name` and `image_id`.
        rows: which images.
        progress: receives every thumbnail; the caller begins and ends the stage.
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
        # Another picture under the old name would misrepresent what the model saw.
        if id_then != id_now and made.by_row.pop(row, None):
            made.problems[row] = CHANGED
    return made


def _look(images: Images, row: int) -> tuple[str, str, str]:
    """Return content hash, data URI and an empty reason, or the reason: one lost image must not cost the page."""
    try:
        content_hash = images.fingerprint(row)
        seen = recall(content_hash)
        jpeg = seen.thumbnail if seen else thumbnail_jpeg(images.open(row, SHORT_SIDE))
        return content_hash, URI_START + base64.b64encode(jpeg).decode(), ""
    except UserError as error:
        return "", "", str(error)
    except OSError as error:
        return "", "", f"cannot be opened ({error.strerror or error})"
