"""The images of a run, for exports that show or hand them on: opened and linked, never changed."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from PIL import Image, UnidentifiedImageError

from nngcd.core.config import build
from nngcd.core.errors import DataError, NoSuchDataError, ResourceError
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_config
from nngcd.datasets import open_dataset
from nngcd.datasets.image_decoding import FORMATS
from nngcd.datasets.manifest_rows import TABLE_EXTENSIONS
from nngcd.datasets.reading import Config as ReadingConfig
from nngcd.datasets.split import Images

_NO_HARD_LINK = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS, errno.EACCES)

_ORIENTATION, _ON_ITS_SIDE = 0x0112, 5
"""The EXIF tag that says how a picture was held, and its first value for one that lies on its side."""


class Originals(Protocol):
    """Images by their file name in the results."""

    @property
    def has_files(self) -> bool:
        """Whether there are files to link to."""
        ...

    @property
    def where(self) -> str:
        """Where the images should be, in words."""
        ...

    def missing(self, file_names: Iterable[str]) -> list[str]:
        """Return which of the images are not there."""
        ...

    def size(self, file_name: str) -> tuple[int, int]:
        """Return width and height of an image as it is seen."""
        ...

    def place(self, file_name: str, target: Path, link: str) -> None:
        """Make the image appear at `target`: a hard link, a symbolic link or a copy."""
        ...

    def exported_name(self, file_name: str) -> str:
        """Return the last part of the name an exported image gets."""
        ...


@dataclass(frozen=True, slots=True)
class Files:
    """Images that are files under a folder."""

    root: Path
    has_files: bool = True

    @property
    def where(self) -> str:
        """The folder."""
        return f"under {self.root}"

    def missing(self, file_names: Iterable[str]) -> list[str]:
        """Return which of the files are not there; `DataError` for one that would lie elsewhere."""
        names = list(file_names)
        if outside := [name for name in names if name.startswith("/") or ".." in PurePosixPath(name).parts]:
            raise DataError(f"D18: the results name a file outside the data folder: '{outside[0]}'.")
        return [name for name in names if not (self.root / name).is_file()]

    def size(self, file_name: str) -> tuple[int, int]:
        """Return width and height, from the head of the file alone."""
        try:
            with Image.open(self.root / file_name, formats=FORMATS) as image:
                width, height = image.size
                return (height, width) if image.getexif().get(_ORIENTATION, 1) >= _ON_ITS_SIDE else (width, height)
        except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
            raise DataError(f"D03: cannot read image '{self.root / file_name}': {error}.") from None

    def place(self, file_name: str, target: Path, link: str) -> None:
        """Link or copy the file."""
        original = self.root / file_name
        if link == "copy":
            shutil.copyfile(original, target)
        elif link == "sym":
            target.symlink_to(original.resolve())
        else:
            os.link(original.resolve(), target)

    def exported_name(self, file_name: str) -> str:
        """Return the name of the file itself."""
        return file_name.rpartition("/")[2]

    def check_links(self, file_names: list[str], folder: Path, link: str) -> None:
        """Try one link of the kind that is asked for.

        Raises:
            ResourceError: E01, such links cannot be made here; says how much a copy would take.
        """
        if link == "copy" or not file_names:
            return
        trial = folder / ".link"
        try:
            self.place(file_names[0], trial, link)
            trial.unlink()
        except OSError as error:
            if error.errno not in _NO_HARD_LINK:
                raise
            n_bytes = sum((self.root / name).stat().st_size for name in file_names)
            where = "across disks" if error.errno == errno.EXDEV else f"here ({error.strerror})"
            raise ResourceError(
                f"E01: cannot link {where}; copying {_amount(n_bytes)}? Say so with --link copy."
            ) from None


@dataclass(frozen=True, slots=True)
class Arrays:
    """Images that lie in an array: exported as PNG files of their own."""

    images: Images
    rows: dict[str, int]
    where: str
    has_files: bool = False

    def missing(self, file_names: Iterable[str]) -> list[str]:
        """Return which images the data no longer hold."""
        return [name for name in file_names if name not in self.rows]

    def size(self, file_name: str) -> tuple[int, int]:
        """Return width and height."""
        return self.images.open(self.rows[file_name]).size

    def place(self, file_name: str, target: Path, link: str) -> None:
        """Write the image as PNG; there is no file to link to."""
        self.images.open(self.rows[file_name]).save(target, format="PNG")

    def exported_name(self, file_name: str) -> str:
        """Return the name with the ending of what is written."""
        return f"{file_name.rpartition('/')[2]}.png"


def open_originals(run: RunFolder, root: Path | None) -> Files | Arrays:
    """Return the images of a run, without reading them where they are files.

    Raises:
        DataError: the run was made from features, or its data are gone.
    """
    settings = read_config(run)
    reading = build(ReadingConfig, settings.get("reading") or {})
    data = Path(str(settings["data"]))
    if root is not None:
        return Files(root)
    if settings.get("dataset") in (None, "folder", "manifest"):
        if data.is_dir():
            return Files(data)
        if data.suffix.lower() in TABLE_EXTENSIONS:
            return Files(Path(reading.image_root) if reading.image_root else data.parent)
        # A path is kept absolute, a benchmark's name is not.
        if data.is_absolute() and not data.exists():
            raise NoSuchDataError(f"D01: the images are no longer in {data}. Where are they now? --root FOLDER")
    split, _ = open_dataset(str(settings["data"]), dataset=settings.get("dataset"), reading=reading)
    if split.images is None:
        raise DataError(f"{run.path} was made from features; there are no images to export. Export a table: --to csv")
    if folder := _folder_of(split.images):
        return Files(folder)
    return Arrays(split.images, {name: i for i, name in enumerate(split.table["file_name"])}, f"in {data}")


def _folder_of(images: Images) -> Path | None:
    """Return the folder of images that are files; some of them are files, too."""
    while hasattr(images, "images"):
        images = images.images
    return getattr(images, "root", None)


def _amount(n_bytes: int) -> str:
    amount = float(n_bytes)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
