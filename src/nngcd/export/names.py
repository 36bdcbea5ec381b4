"""Names that every file system accepts: Windows, macOS and Linux, with what was changed kept for a mapping file."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping

_FORBIDDEN = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')
_RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{i}" for port in ("com", "lpt") for i in "123456789")}
"""Devices of Windows: no file may be called so, whatever its ending."""
MAX_BYTES = 120
"""Longest name; file systems take 255 bytes, whole paths on Windows 260 characters."""
N_DIGITS = 5
"""Digits of the hash that is added to a name that would not be its own."""


def safe_name(name: str) -> str:
    """Return a name that can be a file or folder anywhere; most names come back as they are."""
    changed = _FORBIDDEN.sub("_", unicodedata.normalize("NFC", name)).strip().rstrip(". ")
    if not changed or changed.startswith((".", "~")):
        changed = f"_{changed.lstrip('.~')}"
    if changed.partition(".")[0].rstrip().casefold() in _RESERVED:
        changed = f"_{changed}"
    if len(changed.encode()) <= MAX_BYTES:
        return changed
    stem, ending = _parts(changed)
    room = MAX_BYTES - len(ending.encode()) - 1 - N_DIGITS
    return stem.encode()[:room].decode(errors="ignore").rstrip(". ") + _mark(name, N_DIGITS) + ending


def safe_names(wanted: Mapping[str, str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Return a safe name for each thing, no two alike: a short hash tells apart what only differs in case or form.

    Args:
        wanted: the name that each thing should have; the keys tell things of one name apart.
        taken: names that are used for something else.
    """
    used = {_key(name) for name in taken}
    given: dict[str, str] = {}
    # Names that need no change keep themselves, whatever comes before them; otherwise the first one keeps its name.
    for thing in sorted(wanted, key=lambda thing: safe_name(wanted[thing]) != wanted[thing]):
        name, n_digits = safe_name(wanted[thing]), N_DIGITS
        while _key(name) in used:
            stem, ending = _parts(safe_name(wanted[thing]))
            name, n_digits = stem + _mark(thing, n_digits) + ending, n_digits + 1
        used.add(_key(name))
        given[thing] = name
    return given


def _parts(name: str) -> tuple[str, str]:
    """Return a name without and with only its ending; a long one is no ending."""
    stem, dot, ending = name.rpartition(".")
    return (stem, dot + ending) if stem and len(ending) <= 5 else (name, "")


def _mark(text: str, n_digits: int) -> str:
    return "-" + hashlib.sha256(text.encode()).hexdigest()[:n_digits]


def _key(name: str) -> str:
    """Return what Windows and macOS compare: neither case nor the form of accents counts."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKD", name).casefold())
