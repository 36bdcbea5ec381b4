"""The files of a view bank on disk, and whose views they hold.

A file `NAME-007.npy` holds view 7 of some hundred images, and `NAME.keys` says of which, one key a row: a key is a hash
of all that a view depends on, except what the folder's name already says. Views are looked up by their keys, image by
image. So methods, runs and seeds share them, and so do data that have images in common: a picture more or less, or a
study on some of the pictures, costs no other picture's centre view (random ones are drawn by an image's place). NAME is
a hash of the keys, so that two processes which write the same file at the same time write the same bytes.

Each `.npy` file ends with a seal: the sha256 of its name and of all bytes before. A file without its seal is damaged.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib.format import read_array_header_1_0, read_magic
from numpy.typing import NDArray

from nngcd.core.files import write_bytes

Keys = NDArray[np.bytes_]
SEAL_BYTES = hashlib.sha256().digest_size
BYTES_PER_READ = 2**20


@dataclass(frozen=True, slots=True)
class ViewKeys:
    """The keys (N,) of every image's centre view, and of its random views, which have the same."""

    centre_n: Keys
    random_n: Keys

    def of_view(self, view: int) -> Keys:
        """Return the keys (N,) of one view of every image; view 0 is the centre one."""
        return self.random_n if view else self.centre_n


@dataclass(frozen=True, slots=True)
class Places:
    """Where views are: the file, as its place in `files`, and the row in it; -1 for those that are nowhere yet."""

    files: list[str]
    """Names in the bank's folder, which processes on other machines may know by another path."""
    file_nv: NDArray[np.int64]
    row_nv: NDArray[np.int64]

    def add(self, file: str, image_m: NDArray[np.int64], view: int) -> None:
        """Say that a file holds this view of these images, in this order."""
        self.file_nv[image_m, view], self.row_nv[image_m, view] = len(self.files), np.arange(len(image_m))
        self.files.append(file)

    def missing(self) -> Iterator[tuple[NDArray[np.int64], tuple[int, ...]]]:
        """Yield images that lack the same views, and these views."""
        lacks_nv = self.file_nv < 0
        kinds_cv, kind_n = np.unique(lacks_nv, axis=0, return_inverse=True)
        for kind, lacks_v in enumerate(kinds_cv):
            if lacks_v.any():
                yield np.flatnonzero(kind_n.ravel() == kind), tuple(np.flatnonzero(lacks_v).tolist())


def find_views(folder: Path, keys: ViewKeys, n_views: int, hidden_shape: tuple[int, ...]) -> Places:
    """Return where the views with these keys are; what is damaged is passed over, as if it were not there."""
    n_images = len(keys.centre_n)
    places = Places([], np.full((n_images, n_views), -1), np.full((n_images, n_views), -1))
    for views in (range(1), range(1, n_views)):
        # Two images of the same content have the same centre view.
        wanted_u, u_n = np.unique(keys.of_view(views.start), return_inverse=True)
        file_uv, row_uv = np.full((len(wanted_u), len(views)), -1), np.full((len(wanted_u), len(views)), -1)
        for name, kept_m in _key_lists(folder) if views else ():
            u_m = np.searchsorted(wanted_u, kept_m).clip(max=len(wanted_u) - 1)
            row_r = np.flatnonzero(wanted_u[u_m] == kept_m)
            for place, view in enumerate(views if len(row_r) else ()):
                file = _file(name, view)
                if _is_whole(folder / file, (len(kept_m), *hidden_shape)):
                    file_uv[u_m[row_r], place], row_uv[u_m[row_r], place] = len(places.files), row_r
                    places.files.append(file)
        places.file_nv[:, views], places.row_nv[:, views] = file_uv[u_n], row_uv[u_n]
    return places


def view_file(key_m: Keys, view: int) -> str:
    """Return the name of the file for one view of the images with these keys."""
    return _file(_name(key_m), view)


def write_keys(folder: Path, key_m: Keys) -> None:
    """Write down whose views the files are that `view_file` names; none of them needs to be there."""
    write_bytes(folder / keys_file(key_m), b"\n".join(key_m.tolist()))


def keys_file(key_m: Keys) -> str:
    """Return the name of the list of these keys."""
    return f"{_name(key_m)}.keys"


def _key_lists(folder: Path) -> Iterator[tuple[str, Keys]]:
    """Yield the name and the keys of each list; in a fixed order, because several files may hold the same view."""
    for path in sorted(folder.glob("*.keys")):
        try:
            key_m = _read_keys(path)
        except OSError:  # another run may have deleted it since
            continue
        if path.stem == _name(key_m):
            yield path.stem, key_m


def _read_keys(path: Path) -> Keys:
    return np.array(path.read_bytes().split(), dtype=bytes)


def _file(name: str, view: int) -> str:
    return f"{name}-{view:03d}.npy"


def _name(key_m: Keys) -> str:
    return hashlib.sha256(b"\n".join(key_m.tolist())).hexdigest()[:16]


def seal(written: Path, name: str) -> None:
    """Add the seal to a file that is complete but has not its name yet."""
    with written.open("r+b") as file:
        digest = _digest(file, name, written.stat().st_size)
        file.write(digest)


def is_sealed(path: Path) -> bool:
    """Return whether a file ends with the seal of its name and content."""
    with path.open("rb", buffering=0) as file:
        digest = _digest(file, path.name, path.stat().st_size - SEAL_BYTES)
        return file.read(SEAL_BYTES) == digest


def is_own_list(path: Path) -> bool:
    """Return whether a list of keys has the name that its content gives it."""
    return path.stem == _name(_read_keys(path))


def read_head(path: Path) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Return the shape and the type of a file's numbers, and the byte where they begin."""
    with path.open("rb") as file:
        read_magic(file)
        shape, _, dtype = read_array_header_1_0(file)
        return shape, dtype, file.tell()


def _digest(file: BinaryIO | FileIO, name: str, n_bytes: int) -> bytes:
    """Return the sha256 of a name and of the first bytes of a file, and leave the file behind these."""
    digest, left = hashlib.sha256(name.encode()), n_bytes
    while left > 0 and (block := file.read(min(left, BYTES_PER_READ))):
        digest.update(block)
        left -= len(block)
    return digest.digest()


def _is_whole(path: Path, shape: tuple[int, ...]) -> bool:
    """Whether a file is there, of the right shape and undamaged; any other is simply computed again."""
    try:
        # First: numpy raises all kinds of errors over a damaged head.
        if not is_sealed(path):
            return False
        kept, dtype, start = read_head(path)
        is_long_enough = path.stat().st_size == start + 2 * math.prod(shape) + SEAL_BYTES
        return kept == shape and dtype == np.float16 and is_long_enough
    except (OSError, ValueError, EOFError):
        return False
