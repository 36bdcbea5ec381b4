"""A table, CSV or Parquet, that lists images and their labels: `file_name,label[,split,group]`."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from nngcd.core.errors import DataError
from nngcd.core.progress import OnProgress
from nngcd.core.words import count
from nngcd.data.csv_rows import TableRow, read_rows
from nngcd.data.file_tree import FileTree, no_such_path, walk
from nngcd.data.findings import Finding
from nngcd.data.labels import texts_as_labels
from nngcd.data.listed import Listed, read
from nngcd.data.reading_settings import DEFAULT, ReadingSettings
from nngcd.data.shrinking import Shrinker
from nngcd.data.split import Problem, Split, Truth
from nngcd.datasets.folder import images_among, label_of, notes_on_hidden


def load(
    root: Path | None,
    *,
    reading: ReadingSettings = DEFAULT,
    use_labels: bool = True,
    on_progress: OnProgress | None = None,
    shrinker: Shrinker | None = None,
) -> tuple[Split, Truth | None]:
    """Return the images a manifest lists; an empty label, or -1 in a column of numbers, means unlabelled."""
    return read(find(root, reading, use_labels=use_labels), reading, on_progress=on_progress, shrinker=shrinker), None


def find(
    root: Path | None, reading: ReadingSettings = DEFAULT, *, use_labels: bool = True, wants_rest: bool = False
) -> Listed:
    """Return which images a manifest lists and what their labels say; none is opened.

    With `wants_rest`, images that it does not list are looked for even if they are to be left out.
    """
    if root is None:
        raise DataError("D01: the dataset 'manifest' needs the path of a CSV or Parquet file.")
    rows = read_rows(root, reading.column_of)
    labels = texts_as_labels([row.label if use_labels else None for row in rows])
    folder = root.parent if reading.image_root is None else Path(reading.image_root)
    is_rest_used = reading.rest == "unlabelled"
    tree = walk(folder, follow_links=reading.follow_links) if is_rest_used or wants_rest else FileTree()
    places, file_names, missing = _find_files(folder, rows, tree, follow_links=reading.follow_links)
    rest = sorted(set(images_among(folder, tree.file_names)[0]) - set(file_names))
    n_more = len(rest) if is_rest_used else 0
    nothing = [None] * n_more
    return Listed(
        # With the rest of the folder, the folder is what is sorted, and the table only says some labels.
        name=folder.resolve().name if is_rest_used else root.stem,
        folder=folder,
        file_names=[*file_names, *rest[:n_more]],
        labels=[*(labels[place] for place in places), *nothing],
        splits=[*(rows[place].split for place in places), *nothing],
        groups=[*(rows[place].group for place in places), *nothing],
        problems=tree.problems if is_rest_used else (),
        missing=missing,
        n_rows=len(rows),
        not_listed=rest[n_more:],
        notes=[*(_note_on_folders(rest[:n_more]) if use_labels else ()), *(notes_on_hidden(tree) if n_more else ())],
        hint=f"Paths are relative to '{folder}'"
        + ("; change that with --root FOLDER. " if reading.image_root is None else ". "),
    )


def _note_on_folders(unlisted: Sequence[str]) -> list[Finding]:
    """Note that folder names are not labels here, as they would be without a table."""
    names = [name for name in unlisted if label_of(name, level=1) is not None]
    return [
        Finding(
            code="D16", severity="note",
            what=f"{count(len(names), 'image')} in folders {'is' if len(names) == 1 else 'are'} not in the table, "
            f"first '{names[0]}'",
            effect="they are unlabelled, because with a table of labels folder names are not labels",
        )
    ] if names else []  # fmt: skip


def _find_files(
    folder: Path, rows: Sequence[TableRow], tree: FileTree, *, follow_links: bool
) -> tuple[list[int], list[str], list[Problem]]:
    """Return which rows have a file inside the folder, its name as it is on disk, and the problems of the others."""
    if not folder.is_dir():
        raise no_such_path(folder, expected="folder")
    real_folder = folder.resolve()
    by_last_name: dict[str, list[str]] = defaultdict(list)
    for path in tree.file_names:
        by_last_name[PurePosixPath(path).name].append(path)
    found: dict[int, str] = {}
    problems: list[Problem] = []
    for index, row in enumerate(rows):
        name = _on_disk(folder, row.file_name)
        if name is None:
            near = _near(by_last_name.get(PurePosixPath(row.file_name).name, []))
            problems.append(Problem(row.file_name, "D15", f"missing (line {row.line}{near})"))
        elif not follow_links and not (folder / name).resolve().is_relative_to(real_folder):
            problems.append(Problem(row.file_name, "D19", f"link leaves the folder (line {row.line})"))
        else:
            found[index] = name
    return list(found), list(found.values()), problems


def _near(same_name: Sequence[str]) -> str:
    """Return which file may be meant by a path that leads nowhere: one of the same name in another folder."""
    if len(same_name) == 1:
        return f"; did you mean '{same_name[0]}'?"
    return f"; {len(same_name):,} files have this name, first '{same_name[0]}'" if same_name else ""


def _on_disk(folder: Path, file_name: str) -> str | None:
    # macOS and Excel write accents differently; both spellings mean the same file.
    spellings = (file_name, *(unicodedata.normalize(form, file_name) for form in ("NFC", "NFD")))
    return next((name for name in spellings if _is_file(folder / name)), None)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long for any file, or that holds a null byte
        return False
