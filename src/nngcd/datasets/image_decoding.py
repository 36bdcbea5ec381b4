"""From the bytes of an image file to an upright 8-bit RGB image, or to a plain reason why there is none."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from PIL import Image, ImageCms, ImageOps, UnidentifiedImageError

# Pillow knows far more formats, but some of them start other programs (EPS runs Ghostscript) and none is a photograph.
FORMATS = ("JPEG", "PNG", "TIFF", "BMP", "WEBP", "GIF", "PPM")
_FIRST_BYTES = (b"\xff\xd8\xff", b"\x89PNG", b"II*\0", b"MM\0*", b"RIFF", b"GIF8")


class UnreadableError(Exception):
    """The bytes are not an image that can be read; the message is the plain reason."""


def decode_rgb(data: bytes) -> Image.Image:
    """Return the image in the bytes of a file, found by its content: first frame, upright, 8-bit RGB.

    Raises:
        UnreadableError: with a reason such as `truncated`.
    """
    if not data:
        raise UnreadableError("0 bytes")
    try:
        with Image.open(BytesIO(data), formats=FORMATS) as image:
            image.load()
            return to_rgb(image)
    except Exception as error:  # on broken data Pillow's decoders raise nearly anything
        raise UnreadableError(_reason(error, data)) from error


def to_rgb(image: Image.Image) -> Image.Image:
    """Return an image of any mode as upright 8-bit RGB; transparent parts show white."""
    image = _upright(image)
    if image.mode.startswith(("I", "F")):
        return _rescaled(image).convert("RGB")
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


def _rescaled(image: Image.Image) -> Image.Image:
    # Pillow's own conversion clips at 255, which turns a 16-bit microscope image white.
    values = np.asarray(image, dtype=np.float64)
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    if low == high:
        return Image.new("L", image.size, 0)
    values = np.nan_to_num(values, nan=low, posinf=high, neginf=low)
    return Image.fromarray(np.rint((values - low) / (high - low) * 255).astype(np.uint8))


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
        return "over the pixel limit"
    head = data[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if head.startswith((b"<!doctype html", b"<html")):
        return "not an image (HTML page)"
    is_unknown = isinstance(error, UnidentifiedImageError)
    if is_unknown and not data.startswith(_FIRST_BYTES):
        return "unknown format"
    if is_unknown or "truncated" in str(error).lower() or isinstance(error, EOFError) or _is_short_riff(data):
        return "truncated"
    return f"broken ({error})" if str(error) else f"broken ({type(error).__name__})"


def _is_short_riff(data: bytes) -> bool:
    # WebP states its own length; its decoder only says that it failed.
    return data.startswith(b"RIFF") and int.from_bytes(data[4:8], "little") + 8 > len(data)
