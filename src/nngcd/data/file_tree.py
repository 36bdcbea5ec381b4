"""Which files lie under a folder: hidden ones left out, links followed only inside it, always in the same order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from nngcd.core.errors import NoSuchDataError, did_you_mean, did_you_mean_path
from nngcd.data.split import Problem

LEAVES = "link leaves the folder"
_SYSTEM_NAMES = {"thumbs.db", "ehthumbs.db", "desktop.ini", "@eadir", "__macosx", "$recycle.bin", "lost+found",
                 ".appledouble"}  # fmt: skip


def is_hidden(name: str) -> bool:
    """Return whether a file or folder belongs to the system, not to the user's data (`.DS_Store`, `._x.jpg`)."""
    return name.startswith(".") or name.casefold() in _SYSTEM_NAMES


def no_such_path(
    path: Path,
    *,
    expected: str,
    is_wanted: Callable[[Path], bool] = Path.is_dir,
    other_names: Iterable[str] = (),
) -> NoSuchDataError:
    """Return the error for a path that is not what it should be, with the nearest neighbour of that kind."""
    if path.exists():
        return NoSuchDataError(f"D01: '{path}' is {'a folder' if path.is_dir() else 'a file'}, not a {expected}.")
    hint = did_you_mean_path(path, is_wanted) or did_you_mean(str(path), other_names)
    return NoSuchDataError(f"D01: '{path}' not found; expected a {expected}.{hint}")


@dataclass(frozen=True, slots=True)
class FileTree:
    """The files under a folder, as sorted paths relative to it, its first-level folders, and what is left out.

    `hidden` has the files of each folder whose name begins with a dot; they are left out.
    """

    file_names: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    hidden: dict[str, list[str]] = field(default_factory=dict)


def walk(root: Path, *, follow_links: bool = False) -> FileTree:
    """Return every visible file under a folder.

    Links are followed inside the folder only, unless the user trusts them. Below a linked folder no further folder link
    is followed: that alone rules out endless loops and the explosion of paths between folders that link to each other.
    """
    if not root.is_dir():
        raise no_such_path(root, expected="folder")
    tree = FileTree()
    _visit(root, None if follow_links else root.resolve(), tree, is_linked=False)
    skipped = {problem.file_name for problem in tree.problems}
    shown = [path for path in root.iterdir() if not is_hidden(path.name) and _problem_of_name(path.name) is None]
    tree.folders.extend(sorted(path.name for path in shown if path.is_dir() and path.name not in skipped))
    tree.file_names.sort()
    return tree


def _visit(folder: Path, real_root: Path | None, tree: FileTree, *, is_linked: bool, prefix: str = "") -> None:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise NoSuchDataError(
            f"D01: cannot read folder '{folder}' ({error.strerror}). Check its permissions."
        ) from None
    for entry in entries:
        if is_hidden(entry.name):
            # What the system made is nobody's loss; a folder of the user may be hidden by mistake.
            if entry.name.casefold() not in _SYSTEM_NAMES and entry.is_dir(follow_symlinks=False):
                tree.hidden[prefix + entry.name] = _visible_files(entry.path)
            continue
        name, path = prefix + entry.name, Path(entry.path)
        problem = _problem_of_name(name) or _problem_of_link(path, name, real_root, is_linked=is_linked)
        if problem is not None:
            tree.problems.append(problem)
        elif entry.is_dir():
            _visit(path, real_root, tree, is_linked=is_linked or entry.is_symlink(), prefix=name + "/")
        elif entry.is_file():
            tree.file_names.append(name)
        else:
            tree.problems.append(Problem(name, "D28", f"not a file, but {_kind(path)}"))


def _kind(path: Path) -> str:
    return "a named pipe" if path.is_fifo() else "a socket" if path.is_socket() else "a device"


def _visible_files(folder: str) -> list[str]:
    return [name for _, _, names in os.walk(folder) for name in names if not is_hidden(name)]


def _problem_of_name(name: str) -> Problem | None:
    readable = name.encode("utf-8", "replace").decode()
    # Tables and exports are UTF-8, so a name that is not could not be written down.
    return Problem(readable, "D27", "the file name is not UTF-8; rename it") if readable != name else None


def _problem_of_link(path: Path, name: str, real_root: Path | None, *, is_linked: bool) -> Problem | None:
    reason = _why_not_followed(path, real_root, is_linked=is_linked) if path.is_symlink() else None
    return Problem(name, "D19", reason) if reason is not None else None


def _why_not_followed(link: Path, real_root: Path | None, *, is_linked: bool) -> str | None:
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError):  # Python before 3.13 reports a loop of links as RuntimeError
        return "broken link"
    if real_root is not None and not target.is_relative_to(real_root):
        return LEAVES
    if target.is_dir():
        if link.parent.resolve().is_relative_to(target):
            return "link leads back to a folder above it"
        return "link below a linked folder" if is_linked else None
    return None
