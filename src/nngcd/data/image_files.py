"""Images as files under one folder, each checked once by really decoding it."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nngcd.core.cores import n_cores
from nngcd.core.errors import DataError
from nngcd.core.progress import OnProgress
from nngcd.data.decoding import DEFAULT, Decoding, UnreadableError, decode_rgb, probe
from nngcd.data.image_content import read_image_file, why_unreadable
from nngcd.data.looks import look_of
from nngcd.data.packs import Pack, PackedFile
from nngcd.data.shrinking import Shrinker
from nngcd.data.sightings import Facts, recall, remember, without_thumbnail
from nngcd.data.split import Problem

EXTENSIONS = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".webp", ".gif", ".ppm", ".pgm", ".pbm",
              ".heic", ".heif", ".avif")  # fmt: skip
NOT_AN_IMAGE = ("0 bytes", "unknown format", "not an image (HTML page)")
ALLOWED_BAD = 0.1
ALLOW_BAD_SETTING, ALLOW_BAD_FLAG = "--set reading.allow_bad=", "--allow-bad "
"""Ways to allow a larger share: benchmarks and a user's own images have different flags."""
SECONDS_BEFORE_RETRIES = (0.1, 1.0)
"""A network drive that hiccups gets three chances; a file that is really gone costs one second."""


def open_rgb(
    path: Path | PackedFile,
    decoding: Decoding = DEFAULT,
    *,
    content_hash: str | None = None,
    short_side: int | None = None,
) -> Image.Image:
    """Return the image in a file: found by its content, first frame, upright, 8-bit RGB.

    Args:
        path: the file.
        decoding: what the user says about decoding.
        content_hash: of the file when the data were read, where it is known. What is kept of an image is found by this
            hash, so nothing else may be decoded.
        short_side: as in `decode_rgb`.

    Raises:
        DataError: the file cannot be reached, for example because a network drive is gone, has another content by now,
            or holds no image that can be read.
    """
    try:
        data = _read_patiently(path, decoding)
        if content_hash is not None and hashlib.sha256(data).hexdigest() != content_hash:
            raise DataError(f"D04: '{path}' changed while the run was reading it. Run the same command again.")
        return decode_rgb(data, decoding, short_side=short_side)
    except OSError as error:
        reason = f"{error.strerror}, although it existed when the data were read"
        raise DataError(f"D04: cannot open image '{path}': {reason}. Restore it and continue with --resume.") from error
    except UnreadableError as error:
        raise DataError(f"D03: cannot read image '{path}': {error}.") from error


def _read_patiently(path: Path | PackedFile, decoding: Decoding) -> bytes:
    for seconds in SECONDS_BEFORE_RETRIES:
        try:
            return read_image_file(path, decoding)
        except OSError:
            time.sleep(seconds)
    return read_image_file(path, decoding)


def unreadable_reason(path: Path) -> str | None:
    """Return in plain words why a file cannot be used as an image, or None when it can."""
    return check_file(path).reason


@dataclass(frozen=True, slots=True)
class ImageFiles:
    """Image files under a folder, as an `Images`.

    Args:
        root: the folder, or what the images are packed in.
        file_names: paths relative to the folder, with forward slashes.
        content_hashes: the hash of each file where it is known already; only this content is opened. Otherwise files
            are read again to hash them.
        decoding: what the user says about decoding.
        looks: the look of each image where it is known already; otherwise files are read again.
    """

    root: Path | Pack
    file_names: tuple[str, ...]
    content_hashes: tuple[str, ...] | None = None
    decoding: Decoding = DEFAULT
    looks: tuple[bytes, ...] | None = None

    def __len__(self) -> int:
        return len(self.file_names)

    def open(self, index: int, short_side: int | None = None) -> Image.Image:
        """Return one image in RGB, upright and ready for use; see `Images`."""
        content_hash = None if self.content_hashes is None else self.content_hashes[index]
        path = self.root / self.file_names[index]
        return open_rgb(path, self.decoding, content_hash=content_hash, short_side=short_side)

    def fingerprint(self, index: int) -> str:
        """Return the sha256 of one file, with what changes its pixels."""
        # Views that are kept for later runs are found by this.
        if self.content_hashes is not None:
            return self.decoding.fingerprint(self.content_hashes[index])
        path = self.root / self.file_names[index]
        try:
            return self.decoding.fingerprint(hashlib.sha256(read_image_file(path, self.decoding)).hexdigest())
        except UnreadableError as error:
            raise DataError(f"D20: cannot read image '{path}': {error}.") from error

    def look(self, index: int) -> bytes:
        """Return the look of one image."""
        return look_of(self.open(index)) if self.looks is None else self.looks[index]


@dataclass(frozen=True, slots=True)
class Readable:
    """The files that can be used: `images`, their places `kept` (m,) in the list that was checked, and the problems."""

    images: ImageFiles
    content_hashes: tuple[str, ...]
    kept: NDArray[np.int64]
    problems: tuple[Problem, ...]


def check_files(
    root: Path | Pack,
    file_names: Sequence[str],
    *,
    decoding: Decoding = DEFAULT,
    n_workers: int | None = None,
    on_progress: OnProgress | None = None,
    shrinker: Shrinker | None = None,
) -> tuple[FileCheck, ...]:
    """Return what is found in each file; nothing is decided here. `nngcd check` and `nngcd fit` both see this."""
    found: list[FileCheck] = []
    with ThreadPoolExecutor(n_workers or n_cores()) as pool:
        for check in pool.map(lambda name: check_file(root / name, decoding, shrinker), file_names):
            found.append(check)
            if on_progress is not None:
                on_progress(len(found), len(file_names))
    return tuple(found)


def readable_of(
    root: Path | Pack,
    file_names: Sequence[str],
    checks: Sequence[FileCheck],
    *,
    allow_bad: float = ALLOWED_BAD,
    decoding: Decoding = DEFAULT,
    flag: str = ALLOW_BAD_SETTING,
) -> Readable:
    """Return the files that decode, and the problems of the others."""
    kept = np.array([index for index, check in enumerate(checks) if check.reason is None], dtype=np.int64)
    named = zip(file_names, checks, strict=True)
    problems = tuple(Problem(name, check.code, check.reason) for name, check in named if check.reason is not None)
    refuse_if_many(problems, n_files=len(file_names), allow_bad=allow_bad, flag=flag)
    hashes = tuple(checks[index].content_hash for index in kept)
    looks = tuple(facts.look for index in kept if (facts := checks[index].facts) is not None)
    images = ImageFiles(root, tuple(file_names[index] for index in kept), hashes, decoding, looks)
    return Readable(images, hashes, kept, problems)


def refuse_if_many(
    problems: Sequence[Problem],
    *,
    n_files: int,
    allow_bad: float,
    what: str = "images",
    hint: str = "",
    flag: str = ALLOW_BAD_SETTING,
) -> None:
    """Raise `DataError` when more than the allowed share of the files is bad, naming the first three.

    One bad file never stops a run; many mean that something is wrong with the data as a whole.
    """
    n_bad = len(problems)
    if not is_too_many(n_bad, n_files, allow_bad):
        return
    first = "; ".join(f"'{problem.file_name}': {problem.reason}" for problem in problems[:3])
    share = math.ceil(100 * n_bad / n_files) / 100
    way_out = (
        "None is left." if n_bad == n_files else f"Repair or remove them, or continue without them: {flag}{share}."
    )
    raise DataError(
        f"{problems[0].code}: {n_bad:,} of {n_files:,} {what} cannot be used, more than the allowed {allow_bad:.0%}. "
        f"First: {first}. {hint}{way_out}"
    )


def is_too_many(n_bad: int, n_files: int, allow_bad: float) -> bool:
    """Return whether more than the allowed share of the files is bad, or all of them are."""
    return n_bad > 0 and (n_bad > allow_bad * n_files or n_bad == n_files)


@dataclass(frozen=True, slots=True)
class FileCheck:
    """Facts about one file: its hash and the facts of its image, or a code and the reason why there is none."""

    content_hash: str = ""
    facts: Facts | None = None
    code: str = ""
    reason: str | None = None


def check_file(path: Path | PackedFile, decoding: Decoding = DEFAULT, shrinker: Shrinker | None = None) -> FileCheck:
    """Return what a file holds; all of it is read, so that half a file is not taken for a whole one."""
    try:
        data = read_image_file(path, decoding)
        content_hash = hashlib.sha256(data).hexdigest()
        facts = _seen(data, content_hash, decoding, shrinker)
    except (OSError, UnreadableError) as error:
        code, reason = why_unreadable(error)
        return FileCheck(code=code, reason=reason)
    return FileCheck(content_hash, facts)


def _seen(data: bytes, content_hash: str, decoding: Decoding, shrinker: Shrinker | None) -> Facts:
    """Return the facts of the image in a file, which is decoded unless an earlier command did it."""
    # With other settings something else is seen, or refused.
    kept = recall(content_hash) if decoding == DEFAULT else None
    shrink = None if shrinker is None else partial(shrinker.keep, decoding.fingerprint(content_hash))
    facts = kept or probe(data, decoding, shrink=shrink)
    if kept is None and decoding == DEFAULT:
        remember(content_hash, facts)
    return without_thumbnail(facts)
