"""The pictures of the page: decoded as training sees them, made anew as JPEG; no file is passed on."""

from __future__ import annotations

from collections import OrderedDict
from io import BytesIO
from threading import Lock

from PIL import Image

from nngcd.core.errors import UserError
from nngcd.data.split import Images, image_table
from nngcd.data.thumbnails import thumbnail_jpeg
from nngcd.results.images import CHANGED

SIZES = ("128", "512", "full")
MOST_BYTES = 32 * 2**20
"""Of pictures kept in memory."""
LONGEST_SIDE = 4096
"""Of a picture at full size; more pixels than any screen shows."""


class NoPictureError(UserError):
    """An image cannot be shown: gone, broken, or not what it was when the run was made."""


class PictureStore:
    """Pictures by the row of their image, or why there are none; those shown last are kept in memory."""

    def __init__(self, images: Images | None, file_names: list[str], ids: list[str], why_none: str = "") -> None:
        self.images, self.why_none = images, why_none
        self._file_names, self._ids = file_names, ids
        self._kept: OrderedDict[tuple[int, str], bytes] = OrderedDict()
        self._n_bytes, self._lock = 0, Lock()

    def jpeg(self, row: int, size: str) -> bytes:
        """Return a picture of one image."""
        with self._lock:
            if (kept := self._kept.get((row, size))) is not None:
                self._kept.move_to_end((row, size))
                return kept
        made = self._made(row, size)
        with self._lock:
            self._kept[row, size] = made
            self._n_bytes += len(made)
            while self._n_bytes > MOST_BYTES and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                self._n_bytes -= len(oldest)
        return made

    def _made(self, row: int, size: str) -> bytes:
        if self.images is None:
            raise NoPictureError(self.why_none)
        try:
            content_hash = self.images.fingerprint(row)
            # Another picture under the old name would be a lie about what the model saw.
            if image_table([self._file_names[row]], [content_hash])["image_id"].iat[0] != self._ids[row]:
                raise NoPictureError(CHANGED)
            image = self.images.open(row, None if size == "full" else int(size))
        except OSError as error:
            raise NoPictureError(f"cannot be opened ({error.strerror or error})") from error
        return thumbnail_jpeg(image) if size == "128" else _large_jpeg(image, size)


def _large_jpeg(image: Image.Image, size: str) -> bytes:
    longest = LONGEST_SIDE if size == "full" else int(size)
    factor = longest / max(image.size)
    if factor < 1:
        image = image.resize([max(1, round(side * factor)) for side in image.size], Image.Resampling.LANCZOS)
    elif size != "full" and factor >= 2:
        # Images of a few pixels, as of scanned digits, are enlarged by a whole factor.
        image = image.resize([side * int(factor) for side in image.size], Image.Resampling.NEAREST)
    file = BytesIO()
    image.convert("RGB").save(file, "JPEG", quality=90)
    return file.getvalue()
