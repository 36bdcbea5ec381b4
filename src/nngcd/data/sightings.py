"""Facts about large image files, kept in the user's cache, so that each is decoded once for all commands.

A photograph of 12 megapixels is hashed in a tenth of the time that it takes to look at it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from nngcd.core.atomic import temporary_beside
from nngcd.core.user_cache import user_cache

LARGE = 4_000_000
"""Pixels from which on an image is worth remembering."""
FOLDER = "seen-2"
"""In the cache; another number when something else is kept."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about an image file as stored, before it is turned or converted."""

    format: str
    width: int
    height: int
    mode: str
    is_rotated: bool
    """Turned or mirrored by its EXIF tag."""
    has_frames: bool
    """Animated, or of several pages."""
    is_blank: bool
    """Of one colour only."""
    look: bytes = field(default=b"", repr=False)
    """The colours of its cells, see `looks.py`."""
    thumbnail: bytes = field(default=b"", repr=False, compare=False)
    """A JPEG for the report; of large images only, the others are quickly decoded again."""

    @property
    def is_large(self) -> bool:
        """Whether decoding it takes so long that it should be done once."""
        return is_large(self.width, self.height)


def is_large(width: int, height: int) -> bool:
    """Return whether an image of this size takes so long to decode that it should be done once."""
    return width * height >= LARGE


def recall(content_hash: str) -> Facts | None:
    """Return what was seen in a file of this content, or None where nothing is kept or what is kept is damaged."""
    try:
        digest, text = _path(content_hash).read_bytes().split(b"\n")
        if hashlib.sha256(text).hexdigest().encode() != digest:
            return None
        kept = json.loads(text)
        kept |= {name: base64.b64decode(kept[name]) for name in ("look", "thumbnail")}
        return Facts(**kept)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def remember(content_hash: str, facts: Facts) -> None:
    """Keep what was seen in a large file; where that cannot be written, it is looked at again next time."""
    if not facts.is_large:
        return
    in_words = {name: base64.b64encode(getattr(facts, name)).decode() for name in ("look", "thumbnail")}
    text = json.dumps(asdict(facts) | in_words).encode()
    path = _path(content_hash)
    temporary = temporary_beside(path)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not synced: a file that a crash cuts short does not fit its digest.
        temporary.write_bytes(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
        temporary.replace(path)


def without_thumbnail(facts: Facts) -> Facts:
    """Return the facts without their picture, of which a hundred thousand would fill the memory."""
    return replace(facts, thumbnail=b"")


def _path(content_hash: str) -> Path:
    return user_cache() / FOLDER / content_hash[:2] / content_hash
