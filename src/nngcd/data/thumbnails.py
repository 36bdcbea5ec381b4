"""Small pictures of images, for reports."""

from __future__ import annotations

from io import BytesIO

from PIL import Image

SHORT_SIDE, LONG_SIDE, QUALITY = 112, 224, 76
"""Pixels and JPEG quality of a thumbnail: some 5 kB for a photograph."""


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
    # Of large images, whole pixels are put together first: a tenth of the time, and nothing that can be seen.
    return image.resize(size, Image.Resampling.LANCZOS, reducing_gap=4.0)


def thumbnail_jpeg(image: Image.Image) -> bytes:
    """Return the thumbnail of an RGB or greyscale image as a JPEG file."""
    file = BytesIO()
    thumbnail(image).convert("RGB").save(file, "JPEG", quality=QUALITY, optimize=True)
    return file.getvalue()
