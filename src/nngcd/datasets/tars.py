"""WebDataset tars, here or in a bucket: `embed` and `predict` stream them, `fit` reads those of this machine."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from nngcd.core.errors import DataError
from nngcd.core.places import Place
from nngcd.core.progress import OnProgress
from nngcd.data.packed_files import files_of
from nngcd.data.packed_splits import split_of_pack
from nngcd.data.packs import Span, TarPack
from nngcd.data.reading_settings import DEFAULT, ReadingSettings
from nngcd.data.sources import Source, Unit
from nngcd.data.split import Problem, Split, Truth
from nngcd.data.tar_images import rows_of_tar, spans


def source(root: str | Path, reading: ReadingSettings = DEFAULT, *, use_labels: bool = True) -> Source:
    """Return the images of tars; one tar is one unit."""
    decoding = reading.decoding
    units = [Unit(tar.name, partial(rows_of_tar, tar, decoding, use_labels=use_labels)) for tar in _files(root)]
    return Source(Place.of(root).name, units)


def load(
    root: str | Path | None,
    *,
    reading: ReadingSettings = DEFAULT,
    use_labels: bool = True,
    on_progress: OnProgress | None = None,
) -> tuple[Split, Truth | None]:
    """Return the images of uncompressed tars of this machine, read where they lie: a folder, a pattern or one tar."""
    if root is None:
        raise DataError("D01: the dataset 'tars' needs the path of a folder of tars.")
    found, labels, problems = dict[str, Span](), list[str | None](), list[Problem]()
    for tar in _files(root):
        for member, span in spans(tar, reading.decoding, problems.append):
            if member.name in found:
                raise DataError(f"D14: '{member.name}' appears twice. Make the tar again.")
            found[member.name] = span
            labels.append(member.label if use_labels else None)
    if not found:
        raise DataError(f"D02: no images in the tars of '{root}'.")
    split = split_of_pack(
        TarPack(found), list(found), labels, name=Place.of(root).name, reading=reading, problems=problems,
        on_progress=on_progress,
    )  # fmt: skip
    return split, None


def _files(root: str | Path) -> list[Place]:
    return files_of(str(root), "tars")
