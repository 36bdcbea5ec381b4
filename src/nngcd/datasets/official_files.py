"""Finding a copy of a benchmark by the files of its official archive, or an error that says which were expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nngcd.core.errors import DataError, NoSuchDataError, did_you_mean_path
from nngcd.datasets.counts import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The files and folders by which a copy is recognised.

    Args:
        needed: paths that must all be there, relative to one of `folders`; those that end in "/" are folders.
        folders: where to look, relative to what the user gives; "" is that folder itself.
        source: where copies of this layout come from, in words that end the sentence "Expected ... there, ...".
    """

    needed: tuple[str, ...]
    folders: tuple[str, ...]
    source: str

    def missing(self, folder: Path) -> list[str]:
        """Return the needed paths that are not in a folder."""
        return [name for name in self.needed if not _is_there(folder, name)]


def find_layout(
    root: Path | None, layouts: Sequence[Layout], *, name: str, title: str, part: Part = "train"
) -> tuple[Layout, Path]:
    """Return the first layout that is there in full, and its folder.

    Raises:
        DataError: none of them is there; the message says what was expected where, and what is missing.
    """
    expected = ", or ".join(_description(layout) for layout in layouts)
    if root is None:
        raise DataError(
            f"D01: the dataset '{name}' needs the folder of {title}: {expected}. "
            f"Say where it is: nngcd data add {name} ROOT"
        )
    candidates = [(layout, root / folder) for layout in layouts for folder in layout.folders]
    for layout, folder in candidates:
        if not layout.missing(folder):
            return layout, folder
    what = title if part == "train" else f"test images of {title}"
    kind, hint = (DataError, "") if root.is_dir() else (NoSuchDataError, did_you_mean_path(root, Path.is_dir))
    raise kind(f"D01: no {what} in '{root}', which {_state(root, candidates)}.{hint} Expected {expected}.")


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file without empty ones."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise DataError(f"D17: '{path}' is not UTF-8 text; unpack the archive again.") from None
    return [line.strip() for line in lines if line.strip()]


def read_pairs(path: Path) -> dict[str, str]:
    """Return the lines of a text file as first word and rest, in the order of the file."""
    pairs = (line.split(maxsplit=1) for line in read_lines(path))
    return {pair[0]: pair[-1] for pair in pairs}


def _is_there(folder: Path, name: str) -> bool:
    return (folder / name).is_dir() if name.endswith("/") else (folder / name).is_file()


def _description(layout: Layout) -> str:
    other = [f"'{folder}'" for folder in layout.folders if folder]
    place = f"there or in {' or '.join(other)}" if other else "there"
    return f"{_some(layout.needed)} {place}, {layout.source}"


def _state(root: Path, candidates: Sequence[tuple[Layout, Path]]) -> str:
    if not root.is_dir():
        return "is not a folder"
    # A copy of which some files are there is half copied; the nearest to complete is the one the user means.
    layout, folder = max(candidates, key=lambda found: 1 - len(found[0].missing(found[1])) / len(found[0].needed))
    missing = layout.missing(folder)
    if len(missing) == len(layout.needed):
        return "has other files"
    return f"lacks {_some([(folder / name).relative_to(root).as_posix() for name in missing])}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 7 else f"{', '.join(names[:3])} ... ({len(names)} in all)"
