"""A table, CSV or Parquet, that lists images and their labels: `file_name,label[,split,group]`."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from nngcd.core.errors import DataError
from nngcd.datasets.file_tree import no_such_path
from nngcd.datasets.image_files import ALLOWED_BAD, Progress, keep_readable, refuse_if_many
from nngcd.datasets.labels import drop_contradictions, index_names, is_number, settle_unclear, warn_of_alike
from nngcd.datasets.manifest_rows import Row, read_rows
from nngcd.datasets.split import Problem, Split, Truth, image_table


def load(  # noqa: PLR0913 (each option answers one question a table can leave open)
    root: Path | None,
    *,
    seed: int = 0,
    image_root: Path | None = None,
    unlabelled_names: Iterable[str] = (),
    category_names: Iterable[str] = (),
    use_labels: bool = True,
    allow_bad: float = ALLOWED_BAD,
    on_progress: Progress | None = None,
) -> tuple[Split, Truth | None]:
    """Return the images a manifest lists; an empty label, or -1 in a column of numbers, means unlabelled.

    Args:
        root: the manifest file.
        seed: not used; nothing here is random.
        image_root: the folder the paths are relative to; the folder of the manifest by default.
        unlabelled_names: unclear labels, such as `unknown`, that mean "no label".
        category_names: unclear labels that are categories.
        use_labels: False to read images that are only to be predicted, whatever their labels say.
        allow_bad: share of missing or unreadable files above which the manifest is refused.
        on_progress: called with the number of files checked and their total.

    Raises:
        DataError: the table cannot be read, is unclear or contradicts itself, or too many files are missing or bad.
    """
    if root is None:
        raise DataError("D01: the dataset 'manifest' needs the path of a CSV or Parquet file.")
    rows = read_rows(root)
    labels_given = _label_names([row.label if use_labels else None for row in rows])
    names = settle_unclear(labels_given, unlabelled_names=unlabelled_names, category_names=category_names)
    warn_of_alike(names)
    folder = root.parent if image_root is None else Path(image_root)
    present, file_names, problems = _find_files(folder, rows)
    hint = f"Paths are relative to '{folder}'; change that with --set reading.image_root=FOLDER. "
    refuse_if_many(problems, n_files=len(rows), allow_bad=allow_bad, hint=hint)

    readable = keep_readable(folder, file_names, allow_bad=allow_bad, on_progress=on_progress)
    images, hashes = readable.images, readable.content_hashes
    kept = [present[index] for index in readable.kept]
    names, contradictions = drop_contradictions([names[index] for index in kept], images.file_names, hashes)
    labels, class_names = index_names(names)
    split, group = [rows[index].split for index in kept], [rows[index].group for index in kept]
    return Split(
        name=root.stem,
        images=images,
        features_nvd=None,
        labels=labels,
        class_names=class_names,
        table=image_table(images.file_names, hashes, split=split, group=group),
        problems=(*problems, *readable.problems, *contradictions),
    ), None


def _label_names(texts: Sequence[str | None]) -> list[str | None]:
    """Return the label texts; in a column of numbers -1 and NaN become None, and 3.0 becomes 3."""
    if not all(text is None or is_number(text) for text in texts):
        return [None if text is None else unicodedata.normalize("NFC", text) for text in texts]
    return [None if text is None or _is_no_label(float(text)) else text.removesuffix(".0") for text in texts]


def _is_no_label(number: float) -> bool:
    return math.isnan(number) or number == -1


def _find_files(folder: Path, rows: Sequence[Row]) -> tuple[list[int], list[str], list[Problem]]:
    """Return which rows have a file inside the folder, its name as it is on disk, and the problems of the others."""
    if not folder.is_dir():
        raise no_such_path(folder, expected="folder")
    real_folder = folder.resolve()
    found: dict[int, str] = {}
    problems: list[Problem] = []
    for index, row in enumerate(rows):
        name = _on_disk(folder, row.file_name)
        if name is None:
            problems.append(Problem(row.file_name, "D15", f"missing (line {row.line})"))
        elif not (folder / name).resolve().is_relative_to(real_folder):
            problems.append(Problem(row.file_name, "D19", f"link leaves the folder (line {row.line})"))
        else:
            found[index] = name
    return list(found), list(found.values()), problems


def _on_disk(folder: Path, file_name: str) -> str | None:
    # macOS and Excel write accents differently; both spellings mean the same file.
    spellings = (file_name, *(unicodedata.normalize(form, file_name) for form in ("NFC", "NFD")))
    return next((name for name in spellings if (folder / name).is_file()), None)
