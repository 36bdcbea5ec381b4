"""From what the user wrote beside an image to a label: we ask instead of guessing."""

from __future__ import annotations

import unicodedata
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from nngcd.core.errors import DataError, NngcdWarning
from nngcd.datasets.split import UNLABELLED, Problem

UNCLEAR_NAMES = ("unknown", "other", "-1", "?", "nan", "misc")


def settle_unclear(
    names: Sequence[str | None], *, unlabelled_names: Iterable[str] = (), category_names: Iterable[str] = ()
) -> list[str | None]:
    """Return the names with those the user calls unlabelled set to None.

    Raises:
        DataError: a name such as `unknown` may be a category or mean "no label", and the user has not said which.
    """
    unlabelled, categories = set(unlabelled_names), set(category_names)
    unclear = Counter(name for name in names if name is not None and name.strip().casefold() in UNCLEAR_NAMES)
    open_questions = [name for name in unclear if name not in unlabelled | categories]
    if open_questions:
        name = open_questions[0]
        raise DataError(
            f"D08: {unclear[name]:,} images are labelled '{name}'. Is that a category or 'no label'? "
            f"Say --set \"reading.unlabelled_names=['{name}']\" or --set \"reading.category_names=['{name}']\"."
        )
    return [None if name in unlabelled else name for name in names]


def index_names(names: Sequence[str | None]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the labels (n,) of the names, with None as `UNLABELLED`, and the sorted class names they point to.

    Names that are all numbers are sorted as numbers, so that 10 follows 9.
    """
    found = sorted({name for name in names if name is not None})
    if all(is_number(name) for name in found):
        found.sort(key=float)
    index = {name: position for position, name in enumerate(found)}
    labels = [UNLABELLED if name is None else index[name] for name in names]
    return np.array(labels, dtype=np.int64), tuple(found)


def is_number(text: str) -> bool:
    """Return whether the text reads as a number; `nan` does."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def warn_of_alike(names: Sequence[str | None]) -> None:
    """Warn when two names look alike; they stay different categories, because we never guess about labels."""
    counts = Counter(name for name in names if name is not None)
    alike: dict[str, list[str]] = defaultdict(list)
    for name in sorted(counts):
        alike["".join(unicodedata.normalize("NFKC", name).casefold().split())].append(name)
    for group in alike.values():
        if len(group) > 1:
            where = ", ".join(f"'{name}' ({counts[name]:,} images)" for name in group)
            text = f"D07: category names look alike and stay different categories: {where}. Rename one if they are one."
            warnings.warn(text, NngcdWarning, stacklevel=2)


def drop_contradictions(
    names: Sequence[str | None], file_names: Sequence[str], content_hashes: Sequence[str]
) -> tuple[list[str | None], tuple[Problem, ...]]:
    """Return the names with None for every file whose exact content also carries another name, and those files."""
    by_content: dict[str, set[str]] = defaultdict(set)
    for name, content in zip(names, content_hashes, strict=True):
        if name is not None:
            by_content[content].add(name)
    settled: list[str | None] = []
    problems: list[Problem] = []
    for name, file_name, content in zip(names, file_names, content_hashes, strict=True):
        is_contradicted = name is not None and len(by_content[content]) > 1
        settled.append(None if is_contradicted else name)
        if is_contradicted:
            reason = f"same content under {' and '.join(sorted(by_content[content]))}; label not used"
            problems.append(Problem(file_name, "D13", reason))
    if problems:
        text = f"D13: {len(problems):,} images carry two labels, first '{problems[0].file_name}'; used as unlabelled."
        warnings.warn(text, NngcdWarning, stacklevel=2)
    return settled, tuple(problems)
