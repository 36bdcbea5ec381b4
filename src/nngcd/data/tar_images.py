"""WebDataset tars: consecutive members that share a name up to its first dot are one image, its label and its facts."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import PurePosixPath
from typing import NamedTuple

from nngcd.core.errors import DataError
from nngcd.core.places import Place
from nngcd.data.decoding import Decoding, UnreadableError
from nngcd.data.image_content import refuse_too_large, why_unreadable
from nngcd.data.image_files import EXTENSIONS
from nngcd.data.packs import Span
from nngcd.data.sources import IMAGES_PER_READ, Rows, encoded
from nngcd.data.split import Problem

LABEL_ENDINGS = ("cls", "cls.txt", "label", "label.txt", "cls.json")
"""Endings of members that hold a label; otherwise the keys `label` and `cls` of a `.json` do."""
MOST_LABEL_BYTES = 2**20


class Member(NamedTuple):
    """An image of a tar."""

    name: str
    label: str | None
    span: tuple[int, int]
    """Where its content begins, and how long it is."""
    content: bytes | None
    """None where it was not asked for."""


def rows_of_tar(place: Place, decoding: Decoding, *, use_labels: bool = True) -> Iterator[Rows]:
    """Yield the images of a tar from its beginning to its end, which also works while it is being fetched."""
    waiting, problems = list[Member](), list[Problem]()

    def rows() -> Rows:
        contents = [member.content or b"" for member in waiting]
        return Rows(
            file_names=[member.name for member in waiting],
            opened=encoded(contents.__getitem__, decoding),
            labels=[member.label for member in waiting] if use_labels else None,
            problems=tuple(problems),
        )

    for member in members(place, decoding, problems.append):
        waiting.append(member)
        if len(waiting) == IMAGES_PER_READ:
            yield rows()
            waiting, problems = [], []
    if waiting or problems:
        yield rows()


def members(
    place: Place, decoding: Decoding, leave_out: Callable[[Problem], None], *, wants_content: bool = True
) -> Iterator[Member]:
    """Yield the images of a tar, each with its label; `leave_out` receives those that are too large to be read.

    Raises:
        DataError: it is no tar, or it ends too early.
    """
    key, image, label = "", None, None
    try:
        with place.stream() as stream, tarfile.open(fileobj=stream, mode="r|*") as tar:
            for info in tar:
                if not info.isfile() or PurePosixPath(info.name).name.startswith("."):
                    continue
                own, ending = _split_name(info.name)
                if own != key:
                    if image is not None:
                        yield image._replace(label=label)
                    key, image, label = own, None, None
                if f".{ending.rpartition('.')[2]}" in EXTENSIONS:
                    image = _image(tar, info, place.name, decoding, leave_out, wants_content=wants_content)
                else:
                    label = _label(tar, info, ending) or label
            if image is not None:
                yield image._replace(label=label)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise DataError(f"D17: '{place.text}' cannot be read as a tar ({error}). Copy or make it again.") from error


def spans(place: Place, decoding: Decoding, leave_out: Callable[[Problem], None]) -> Iterator[tuple[Member, Span]]:
    """Yield the images of an uncompressed tar of this machine, and where they lie.

    Raises:
        DataError: it is on another machine, compressed, or not a tar.
    """
    if place.local is None or place.name.endswith(("gz", "bz2", "xz", "zst")):
        raise DataError(
            f"D33: '{place.text}' allows no random access, which training needs. Copy it to this machine uncompressed, "
            f"or compute features first: nngcd embed DATA --out features/"
        )
    for member in members(place, decoding, leave_out, wants_content=False):
        yield member, Span(place.local, *member.span)


def _split_name(name: str) -> tuple[str, str]:
    """Return what members of one image share, and the ending in small letters."""
    folder, slash, last = name.rpartition("/")
    stem, _, ending = last.partition(".")
    return f"{folder}{slash}{stem}", ending.lower()


def _image(
    tar: tarfile.TarFile, info: tarfile.TarInfo, tar_name: str, decoding: Decoding,
    leave_out: Callable[[Problem], None], *, wants_content: bool,
) -> Member | None:  # fmt: skip
    name = f"{tar_name}/{info.name.removeprefix('./')}"
    try:
        refuse_too_large(info.size, decoding)
    except UnreadableError as error:
        leave_out(Problem(name, *why_unreadable(error)))
        return None
    content = _content(tar, info) if wants_content else None
    return Member(name, None, (info.offset_data, info.size), content)


def _label(tar: tarfile.TarFile, info: tarfile.TarInfo, ending: str) -> str | None:
    if info.size > MOST_LABEL_BYTES or (ending not in LABEL_ENDINGS and ending != "json"):
        return None
    text = _content(tar, info).decode("utf-8", "replace").strip()
    if ending.endswith("json"):
        value = None
        with suppress(ValueError):
            value = json.loads(text)
        if isinstance(value, dict):
            value = value.get("label", value.get("cls"))
        text = "" if value is None or isinstance(value, (dict, list)) else str(value)
    return text or None


def _content(tar: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(info)
    return file.read() if file is not None else b""
