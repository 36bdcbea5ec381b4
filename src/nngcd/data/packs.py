"""Packs: images inside other files, found by their name as files in a folder are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple


class Pack(ABC):
    """Images that have a name and a content, but no file of their own."""

    @abstractmethod
    def n_bytes(self, name: str) -> int:
        """Return the size of an image's content."""

    @abstractmethod
    def content(self, name: str) -> bytes:
        """Return an image's content."""

    def __truediv__(self, name: str) -> PackedFile:
        return PackedFile(self, name)


@dataclass(frozen=True, slots=True)
class PackedFile:
    """An image of a pack, read as a file is."""

    pack: Pack
    name: str

    def __str__(self) -> str:
        return self.name

    @property
    def n_bytes(self) -> int:
        """The size of the content."""
        return self.pack.n_bytes(self.name)

    def read_bytes(self) -> bytes:
        """Return the content."""
        return self.pack.content(self.name)


class Span(NamedTuple):
    """Place of an image in an uncompressed tar."""

    file: Path
    offset: int
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class TarPack(Pack):
    """Images in tars of this machine, read where they lie."""

    spans: Mapping[str, Span]

    def n_bytes(self, name: str) -> int:
        """Return the size of an image's content."""
        return self.spans[name].size

    def content(self, name: str) -> bytes:
        """Return an image's content."""
        span = self.spans[name]
        with span.file.open("rb") as file:
            file.seek(span.offset)
            return file.read(span.size)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnPack(Pack):
    """Images in a column of an Arrow table, which is in memory, or mapped into it."""

    column: Any
    """(n,) pyarrow's binary values."""
    row_of: Mapping[str, int]

    def n_bytes(self, name: str) -> int:
        """Return the size of an image's content."""
        value = self.column[self.row_of[name]]
        return value.as_buffer().size if value.is_valid else 0

    def content(self, name: str) -> bytes:
        """Return an image's content."""
        return self.column[self.row_of[name]].as_py() or b""
