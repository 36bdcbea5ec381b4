"""Places that hold data or results: folders of this machine, and remote ones (s3://, gs://, hf://, any of fsspec's)."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nngcd.core.atomic import atomic, cannot_write, temporary_beside, writing
from nngcd.core.errors import DataError, NoSuchDataError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_REMOTE = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)


def is_remote(text: str) -> bool:
    """Return whether a text names a place that is reached through a file system of its own, such as s3://bucket."""
    return _REMOTE.match(text) is not None


@dataclass(frozen=True, slots=True)
class Place:
    """A folder or file, here or elsewhere, and how it is reached."""

    text: str
    """As the user wrote it, for messages."""
    files: FileSystem
    path: str

    @classmethod
    def of(cls, text: str | Path) -> Place:
        """Return the place that a path or an address names.

        Raises:
            DataError: there is no such kind of address, or its file system cannot be reached.
        """
        from pyarrow import fs  # here: `nngcd --help` should not wait for it

        text = str(text)
        if not is_remote(text):
            return cls(text, fs.LocalFileSystem(use_mmap=True), str(Path(text).absolute()))
        try:
            # Its own S3 and GCS need no further package; all others are fsspec's.
            if text.lower().startswith(("s3://", "gs://", "gcs://")):
                return cls(text, *fs.FileSystem.from_uri(text))
            import fsspec

            files, path = fsspec.core.url_to_fs(text)
            return cls(text, fs.PyFileSystem(fs.FSSpecHandler(files)), path)
        except (OSError, ValueError, ImportError) as error:
            raise cannot_reach(text, error) from error

    @property
    def local(self) -> Path | None:
        """The path on this machine, None for a remote place."""
        return None if is_remote(self.text) else Path(self.path)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rstrip("/").rpartition("/")[2]

    def below(self, name: str) -> Place:
        """Return what has a name in this folder."""
        return Place(f"{self.text.partition('?')[0].rstrip('/')}/{name}", self.files, f"{self.path.rstrip('/')}/{name}")

    def is_folder(self) -> bool:
        """Return whether there is a folder."""
        return bool(self._facts().type.name == "Directory")

    def is_file(self) -> bool:
        """Return whether there is a file."""
        return bool(self._facts().is_file)

    def names(self, pattern: str = "*", *, is_deep: bool = False) -> list[str]:
        """Return the sorted names of the files in this folder, hidden ones left out; none where there is no folder."""
        from pyarrow import fs

        with self._reached():
            found = self.files.get_file_info(fs.FileSelector(self.path, recursive=is_deep, allow_not_found=True))
        names = [one.path[len(self.path.rstrip("/")) + 1 :] for one in found if one.is_file]
        return sorted(n for n in names if fnmatchcase(n.rpartition("/")[2], pattern) and not n.startswith("."))

    def open(self) -> Any:  # noqa: ANN401 (pyarrow has no types)
        """Return the file, to be read from anywhere in it."""
        with self._reached():
            return self.files.open_input_file(self.path)

    def stream(self) -> Any:  # noqa: ANN401 (pyarrow has no types)
        """Return the file, to be read from its beginning to its end."""
        with self._reached():
            return self.files.open_input_stream(self.path, compression=None, buffer_size=2**20)

    def read(self) -> bytes:
        """Return the content of the file; raise `OSError` where it cannot be reached."""
        with self.files.open_input_stream(self.path, compression=None) as file:
            return bytes(file.read())

    @contextmanager
    def write(self) -> Iterator[Path]:
        """Yield a temporary path; what it holds when the block ends well becomes this file, whole or not at all."""
        if self.local is not None:
            with atomic(self.local) as temporary:
                yield temporary
            return
        with tempfile.TemporaryDirectory() as folder:
            yield (temporary := Path(folder) / self.name)
            try:
                # A remote file appears when it is closed, which does not happen unless all of it was sent.
                content = temporary.read_bytes()
                with self.files.open_output_stream(self.path) as file:
                    file.write(content)
            except OSError as error:
                raise cannot_write(self.text, error) from error

    def claim(self, content: bytes) -> bytes:
        """Write the file unless there is one already, and return what it then holds: of several processes one wins."""
        path = self.local
        if path is None:
            if not self.is_file():
                with self.write() as temporary:
                    temporary.write_bytes(content)
            return self.read()
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = temporary_beside(path)
            temporary.write_bytes(content)
            try:
                os.link(temporary, path)
            except FileExistsError:
                pass
            finally:
                temporary.unlink()
        return path.read_bytes()

    def _facts(self) -> Any:  # noqa: ANN401 (pyarrow has no types)
        with self._reached():
            return self.files.get_file_info(self.path)

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise NoSuchDataError(f"D01: '{self.text}' not found.") from None
        except OSError as error:
            raise cannot_reach(self.text, error) from error


def cannot_reach(text: str, error: Exception) -> DataError:
    """Return the error for a place that cannot be reached."""
    reason = " ".join(str(error).split())[:300] or type(error).__name__
    return DataError(f"D33: cannot reach '{text}' ({reason}). Check the address, the network and your credentials.")
