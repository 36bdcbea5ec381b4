"""The content of one image file or packed image: bounded in size, or the plain reason why there is none."""

from __future__ import annotations

import stat
from pathlib import Path

from PIL import Image

from nngcd.data.decoding import DEFAULT, Decoding, UnreadableError
from nngcd.data.packs import PackedFile

MISSING = "missing"


def read_image_file(path: Path | PackedFile, decoding: Decoding = DEFAULT) -> bytes:
    """Return the content of an image file, unless it is larger than any image of the allowed size.

    Raises:
        OSError: the file cannot be reached.
        UnreadableError: it is no regular file, or too large; all of it would have to fit into memory.
    """
    if isinstance(path, PackedFile):
        n_bytes = path.n_bytes
    else:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            raise UnreadableError("not a file")  # a pipe would never end
        n_bytes = facts.st_size
    refuse_too_large(n_bytes, decoding)
    return path.read_bytes()


def refuse_too_large(n_bytes: int, decoding: Decoding) -> None:
    """Raise `UnreadableError` for a content that is larger than any image of the allowed size."""
    if n_bytes > decoding.max_bytes:
        reason = f"too large ({n_bytes / 1e9:.1f} GB; an image within the pixel limit takes up to "
        too_large = Image.DecompressionBombError(f"{n_bytes} bytes")
        raise UnreadableError(f"{reason}{decoding.max_bytes / 1e9:.1f} GB)") from too_large


def why_unreadable(error: OSError | UnreadableError) -> tuple[str, str]:
    """Return the code and the plain reason of an image that cannot be read."""
    if isinstance(error, FileNotFoundError):
        return "D15", MISSING
    if isinstance(error, OSError):
        return "D03", f"cannot be opened ({error.strerror or error})"
    is_too_big = isinstance(error.__cause__, Image.DecompressionBombError)
    return "D20" if is_too_big else "D03", str(error)
