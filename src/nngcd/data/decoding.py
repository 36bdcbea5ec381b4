"""From the bytes of an image file to an upright 8-bit RGB image, or to a plain reason why there is none."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO

import numpy as np
from PIL import Image, ImageCms, ImageOps, UnidentifiedImageError, features

try:
    import pi_heif
except ImportError:  # photographs of iPhones are then of an unknown format
    HEIF: tuple[str, ...] = ()
else:
    pi_heif.register_heif_opener()
    HEIF = ("HEIF",)

from nngcd.data.looks import SIDE as LOOK_SIDE
from nngcd.data.looks import look_of
from nngcd.data.sightings import Facts, is_large
from nngcd.data.thumbnails import thumbnail_jpeg

# Pillow knows far more formats, but some of them start other programs (EPS runs Ghostscript) and none is a photograph.
FORMATS = ("JPEG", "PNG", "TIFF", "BMP", "WEBP", "GIF", "PPM", *(("AVIF",) if features.check("avif") else ()), *HEIF)
REDUCED_SIDE = 2
"""A JPEG is decoded at a half, a quarter or an eighth while it stays this many times as large as it is needed."""
LARGE_SIDE = 365
"""The short side that large images are first decoded for: three sizes of a network of 224 pixels."""
Shrink = Callable[[Image.Image, Callable[[int], bool]], None]
"""Takes a large image, and a function that says for which short sides it is right."""
_FIRST_BYTES = (b"\xff\xd8\xff", b"\x89PNG", b"II*\0", b"MM\0*", b"RIFF", b"GIF8")
_ORIENTATION = 0x0112
PILLOW_PIXELS = 178_956_970
"""Pillow's own limit."""
# Pillow keeps its limit in one place for the whole process.
_PILLOW_LIMIT = threading.Lock()


@dataclass(frozen=True, slots=True)
class Decoding:
    """Settings of decoding; the defaults are safe for files from unknown sources."""

    max_pixels: int | None = None
    """Largest number of pixels of an image; when absent, Pillow's limit of 178,956,970."""
    grey_range: tuple[float, float] | None = None
    """The values of 16-bit, 32-bit and float images that become black and white; when absent, each image's own."""

    @property
    def max_bytes(self) -> int:
        """The largest file that is read: as many pixels as are allowed, not compressed, in four channels of 16 bits."""
        return 8 * (self.max_pixels or PILLOW_PIXELS)

    def fingerprint(self, content_hash: str) -> str:
        """Return what names the pixels of a file: the hash of its content, with what changes its pixels."""
        return content_hash if self.grey_range is None else f"{content_hash}-grey{self.grey_range}"


DEFAULT = Decoding()


class UnreadableError(Exception):
    """The bytes are not an image that can be read; the message is the plain reason."""


def decode_rgb(data: bytes, decoding: Decoding = DEFAULT, *, short_side: int | None = None) -> Image.Image:
    """Return the image in the bytes of a file, found by its content: first frame, upright, 8-bit RGB.

    Args:
        data: the content of the file.
        decoding: what the user says about decoding.
        short_side: what the short side will be made, where that is known. A JPEG is then decoded at a half, a quarter
            or an eighth of its size, if that is still twice as large: a photograph of 12 megapixels in half the time.

    Raises:
        UnreadableError: with a reason such as `truncated`.
    """
    with _opened(data, decoding) as image:
        if short_side is not None:
            _reduce(image, short_side)
        image.load()
        return to_rgb(image, decoding.grey_range)


def probe(data: bytes, decoding: Decoding = DEFAULT, *, shrink: Shrink | None = None) -> Facts:
    """Return the facts of the image that `decode_rgb` would give, in less time; it fails where that fails.

    All of the file is read: a header alone does not show that the rest is missing. A JPEG is decoded at a part of its
    size, which goes through the same bytes and leaves out most of the arithmetic.

    Args:
        data: the content of the file.
        decoding: what the user says about decoding.
        shrink: is given a large image, and a function that says whether `decode_rgb` would give the same for a short
            side.
    """
    with _opened(data, decoding) as image:
        name, size, mode = image.format or "", image.size, image.mode
        # A large image is decoded as most networks need it; of a small one, four pixels a cell are enough for its look.
        side = LARGE_SIDE if is_large(*size) else 2 * LOOK_SIDE
        drafted = _reduce(image, side)
        image.load()
        is_plain = image.mode in ("RGB", "L") and not image.has_transparency_data
        is_rotated, has_frames = _is_rotated(image), _has_frames(image)
        box = drafted[1] if drafted and not is_rotated else None
        shown = image if is_plain and not is_rotated else to_rgb(image, decoding.grey_range)
        is_blank = _is_blank(shown)
        if is_blank and image.size != size:
            is_blank = _is_blank(decode_rgb(data, decoding))
        if shrink and is_large(*size):
            shrink(
                shown.convert("RGB"),
                lambda wanted: drafted is None or _reduction(size, wanted) == _reduction(size, side),
            )
        facts = Facts(name, *size, mode, is_rotated, has_frames, is_blank, look_of(shown, box))
        return replace(facts, thumbnail=thumbnail_jpeg(shown)) if facts.is_large else facts


def _reduce(image: Image.Image, short_side: int) -> tuple[str, tuple[int, int, float, float]] | None:
    """Let a JPEG be decoded at a part of its size; return its new mode and box, or None for other formats."""
    return image.draft(None, (REDUCED_SIDE * short_side,) * 2)


def _reduction(size: tuple[int, int], short_side: int) -> int:
    """Return by what `_reduce` divides the sides of a JPEG."""
    return max(factor for factor in (1, 2, 4, 8) if factor == 1 or min(size) // (REDUCED_SIDE * short_side) >= factor)


@contextmanager
def _opened(data: bytes, decoding: Decoding) -> Iterator[Image.Image]:
    if not data:
        raise UnreadableError("0 bytes")
    try:
        with _open(data, decoding.max_pixels) as image:
            yield image
    except UnreadableError:
        raise
    except Exception as error:  # on broken data Pillow's decoders raise nearly anything
        raise UnreadableError(_reason(error, data)) from error


def _open(data: bytes, max_pixels: int | None) -> Image.Image:
    if max_pixels is None:
        return Image.open(BytesIO(data), formats=FORMATS)
    with _PILLOW_LIMIT:
        before, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            image = Image.open(BytesIO(data), formats=FORMATS)
        finally:
            Image.MAX_IMAGE_PIXELS = before
    if image.width * image.height > max_pixels:
        raise Image.DecompressionBombError(f"({image.width * image.height} pixels)")
    return image


def _is_blank(image: Image.Image) -> bool:
    return all(low == high for low, high in (band.getextrema() for band in image.split()))


def _is_rotated(image: Image.Image) -> bool:
    try:
        return image.getexif().get(_ORIENTATION, 1) in range(2, 9)
    except (SyntaxError, ValueError, TypeError, KeyError, OSError):  # broken EXIF, which is then not applied either
        return False


def _has_frames(image: Image.Image) -> bool:
    # Phones put a preview into their photographs as a second frame (MPO); that is not an animation.
    if image.format not in ("GIF", "WEBP", "TIFF", "PNG"):
        return False
    try:
        return bool(getattr(image, "is_animated", False))
    except Exception:  # noqa: BLE001 (a broken second frame; the first one is good)
        return False


def to_rgb(image: Image.Image, grey_range: tuple[float, float] | None = None) -> Image.Image:
    """Return an image of any mode as upright 8-bit RGB; transparent parts show white, deep greys fill their range."""
    image = _upright(image)
    if image.mode.startswith(("I", "F")):
        return _rescaled(image, grey_range).convert("RGB")
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
    if image.mode in ("CMYK", "LAB"):
        return _through_profile(image)
    return image.convert("RGB")


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except (SyntaxError, ValueError, TypeError, KeyError, OSError):  # broken EXIF; the pixels are still good
        return image


def _rescaled(image: Image.Image, grey_range: tuple[float, float] | None) -> Image.Image:
    # Pillow's own conversion clips at 255, which turns a 16-bit microscope image white.
    values = np.asarray(image, dtype=np.float64)
    finite = values[np.isfinite(values)]
    low, high = grey_range or ((finite.min(), finite.max()) if finite.size else (0.0, 0.0))
    if low == high:
        return Image.new("L", image.size, 0)
    values = np.clip(np.nan_to_num(values, nan=low, posinf=high, neginf=low), low, high)
    # Divided first: the range of 32-bit floats may itself be too large for a number.
    return Image.fromarray(np.rint((values / 2 - low / 2) / (high / 2 - low / 2) * 255).astype(np.uint8))


def _through_profile(image: Image.Image) -> Image.Image:
    """Return a CMYK or LAB image in sRGB, through its embedded profile where there is one that works."""
    profile = image.info.get("icc_profile")
    if profile is None and image.mode == "CMYK":
        return image.convert("RGB")
    try:
        source = ImageCms.ImageCmsProfile(BytesIO(profile)) if profile else ImageCms.createProfile("LAB")
        converted = ImageCms.profileToProfile(image, source, ImageCms.createProfile("sRGB"), outputMode="RGB")
    except (ImageCms.PyCMSError, OSError):  # a profile of another colour space, or a broken one
        return image.convert("RGB")
    return converted if converted is not None else image.convert("RGB")


def _reason(error: Exception, data: bytes) -> str:
    if isinstance(error, Image.DecompressionBombError):
        found = re.search(r"(\d+) pixels", str(error))
        return f"over the pixel limit ({int(found[1]):,} pixels)" if found else "over the pixel limit"
    head = data[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if head.startswith((b"<!doctype html", b"<html")):
        return "not an image (HTML page)"
    is_unknown = isinstance(error, UnidentifiedImageError)
    # HEIC and AVIF begin with the length of their first box, whose name follows.
    if is_unknown and not data.startswith(_FIRST_BYTES) and data[4:8] != b"ftyp":
        return "unknown format"
    if is_unknown or "truncated" in str(error).lower() or isinstance(error, EOFError) or _is_short_riff(data):
        return "truncated"
    return f"broken ({error})" if str(error) else f"broken ({type(error).__name__})"


def _is_short_riff(data: bytes) -> bool:
    # WebP states its own length; its decoder only says that it failed.
    return data.startswith(b"RIFF") and int.from_bytes(data[4:8], "little") + 8 > len(data)
