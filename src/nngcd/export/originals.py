"""The images of a run, for exports that show or hand them on: opened and linked, never changed."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pandas as pd
from PIL import Image, UnidentifiedImageError

from nngcd.core.errors import DataError, NoSuchDataError, ResourceError
from nngcd.core.progress import Counted, Progress
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_config
from nngcd.core.words import size
from nngcd.data.decoding import DEFAULT, FORMATS, Decoding
from nngcd.data.image_content import MISSING
from nngcd.data.image_files import check_files
from nngcd.data.split import Images, image_table
from nngcd.results.images import CHANGED, find_folder, places, reading_of, reopened

_NO_HARD_LINK = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS, errno.EACCES)

_ORIENTATION, _ON_ITS_SIDE = 0x0112, 5
"""The EXIF tag that says how a picture was held, and its first value for one that lies on its side."""


@dataclass(frozen=True, slots=True)
class Files:
    """Images that are files under a folder."""

    root: Path
    decoding: Decoding = DEFAULT
    has_files: bool = True

    @property
    def where(self) -> str:
        """The folder."""
        return f"under {self.root}"

    def problems(self, table: pd.DataFrame, progress: Progress) -> dict[str, str]:
        """Return the images that cannot be handed on, by file name, with the reason: gone, or not what the run saw.

        A run folder may come from a stranger and name any file of this machine. Only what is an image, and has the
        content that the run recorded (`image_id`), is shown or handed on.
        """
        names, stage = table["file_name"].tolist(), Counted(progress, "looking at images")
        checks = check_files(self.root, names, decoding=self.decoding, on_progress=stage)
        stage.finish()
        reasons = {name: check.reason for name, check in zip(names, checks, strict=True) if check.reason is not None}
        ids = image_table(names, [check.content_hash for check in checks])["image_id"]
        return _changed(table, ids.tolist()) | reasons

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
                f"E01: cannot link {where}. To copy {size(n_bytes)} instead, add --link copy."
            ) from None


@dataclass(frozen=True, slots=True)
class Arrays:
    """Images in an array: exported as PNG files of their own."""

    images: Images
    rows: dict[str, int]
    ids: list[str]
    where: str
    has_files: bool = False

    def problems(self, table: pd.DataFrame, progress: Progress) -> dict[str, str]:
        """Return the images that the data no longer hold, or hold another content for."""
        is_there = table["file_name"].isin(self.rows.keys())
        there = table[is_there]
        missing = dict.fromkeys(table["file_name"][~is_there], MISSING)
        return missing | _changed(there, [self.ids[self.rows[name]] for name in there["file_name"]])

    def size(self, file_name: str) -> tuple[int, int]:
        """Return width and height."""
        return self.images.open(self.rows[file_name]).size

    def place(self, file_name: str, target: Path, link: str) -> None:
        """Write the image as PNG; there is no file to link to."""
        self.images.open(self.rows[file_name]).save(target, format="PNG")

    def exported_name(self, file_name: str) -> str:
        """Return the name with the ending of what is written."""
        return f"{file_name.rpartition('/')[2]}.png"


Originals: TypeAlias = Files | Arrays
"""Images by their file name in the results."""


def open_originals(run: RunFolder, table: pd.DataFrame, root: Path | None) -> Originals:
    """Return the images of a table of results, without reading them where they are files.

    Raises:
        DataError: the run was made from features, or its data are gone.
    """
    settings = read_config(run)
    data, is_own = Path(str(settings["data"])), settings.get("dataset") in (None, "folder", "manifest")
    # Where none of the files is there, each of them is said to be missing.
    folder = find_folder(settings, table, root) or root or (next(places(settings), None) if is_own else None)
    if folder is not None:
        return Files(folder, reading_of(settings).decoding)
    # A path is kept absolute, a benchmark's name is not.
    if is_own and data.is_absolute() and not data.exists():
        raise NoSuchDataError(f"D01: the images are no longer in {data}. Say where they are: --root FOLDER")
    split, _ = reopened(settings)
    if split.images is None:
        raise DataError(
            f"{run.path} was made from features; it has no images to export. Export a table instead: --to csv"
        )
    rows = {name: i for i, name in enumerate(split.table["file_name"])}
    return Arrays(split.images, rows, split.table["image_id"].tolist(), f"in {data}")


def _changed(table: pd.DataFrame, ids_now: list[str]) -> dict[str, str]:
    """Return the images whose content is not what the run recorded."""
    rows = zip(table["file_name"], table["image_id"], ids_now, strict=True)
    return {name: CHANGED for name, then, now in rows if then != now}
