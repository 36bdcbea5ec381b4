"""From what the user wrote about an image to a label: nngcd asks instead of guessing."""

from __future__ import annotations

import itertools
import math
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from nngcd.core.errors import DataError, warn
from nngcd.data import findings
from nngcd.data.split import UNLABELLED, Problem

UNSURE_FOLDER = "_unsure"
"""Where `nngcd export --to folders` puts images that nobody is sure of."""
UNLABELLED_FOLDERS = ("_unlabeled", "_unlabelled", "unlabeled", "unlabelled", UNSURE_FOLDER)
"""Folders, in any case, whose images are to be sorted: they are not categories."""
UNCLEAR_NAMES = (
    "unknown", "other", "-1", "?", "nan", "misc", "none", "null", "na", "n/a", "<na>", "nat", *UNLABELLED_FOLDERS
)  # fmt: skip
"""Names, in any case, that may also mean "no label": what tables and arrays make of a gap, and there also what is no
category as a folder."""
SHORTEST_TYPO = 6


def texts_as_labels(texts: Sequence[str | None]) -> list[str | None]:
    """Return the label texts; in a column of numbers -1 and NaN become None, and 3.0 becomes 3."""
    if not all(text is None or is_number(text) for text in texts):
        return [None if text is None else unicodedata.normalize("NFC", text) for text in texts]
    return [None if text is None or _is_no_label(float(text)) else text.removesuffix(".0") for text in texts]


def _is_no_label(number: float) -> bool:
    return math.isnan(number) or number == -1


def settle_unclear(
    names: Sequence[str | None], *, unlabelled_names: Iterable[str] = (), category_names: Iterable[str] = ()
) -> list[str | None]:
    """Return the names with those the user calls unlabelled set to None.

    Raises:
        DataError: a name such as `unknown` may be a category or mean "no label", and the user has not said which.
    """
    unlabelled, categories = set(unlabelled_names), set(category_names)
    unclear = unclear_names(names, settled=unlabelled | categories)
    if unclear:
        raise DataError(str(findings.unclear(*next(iter(unclear.items())))))
    return [None if name in unlabelled else name for name in names]


def unclear_names(names: Sequence[str | None], *, settled: Container[str] = ()) -> Counter[str]:
    """Return how many images carry each name of which nobody has said whether it is a category."""
    found = Counter(name for name in names if name is not None and name.strip().casefold() in UNCLEAR_NAMES)
    return Counter({name: count for name, count in found.items() if name not in settled})


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


def alike_names(names: Iterable[str]) -> list[list[str]]:
    """Return groups of names that differ in case, spaces or the way accents are written, or by one letter.

    Names of fewer than six characters, and those that differ in a digit, are often meant to be one letter apart.
    """
    plain = {name: "".join(unicodedata.normalize("NFKC", name).casefold().split()) for name in sorted(set(names))}
    # Two texts one letter apart have in common what is left when a letter is taken out of one of them, or of both.
    by_form: dict[str, list[str]] = defaultdict(list)
    for name, text in plain.items():
        shorter = {text[:i] + text[i + 1 :] for i in range(len(text))} if len(text) >= SHORTEST_TYPO else set()
        for form in {text, *shorter}:
            by_form[form].append(name)
    leader = {name: name for name in plain}
    for group in by_form.values():
        for name, other in itertools.combinations(group, 2):
            if _is_typo(plain[name], plain[other]):
                first, second = sorted((leader[name], leader[other]))
                leader = {key: first if value == second else value for key, value in leader.items()}
    groups: dict[str, list[str]] = defaultdict(list)
    for name in plain:
        groups[leader[name]].append(name)
    return [group for group in groups.values() if len(group) > 1]


def _is_typo(text: str, other: str) -> bool:
    """Return whether two texts are equal, or differ by one letter that is missing, wrong or misplaced."""
    if text == other:
        return True
    start = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))
    ends = zip(reversed(text[start:]), reversed(other[start:]), strict=False)
    tail = next((i for i, (a, b) in enumerate(ends) if a != b), min(len(text), len(other)) - start)
    mine, theirs = text[start : len(text) - tail], other[start : len(other) - tail]
    is_one_letter = len(mine) <= 1 and len(theirs) <= 1
    is_swapped = len(mine) == 2 and mine == theirs[::-1]
    return (is_one_letter or is_swapped) and not any(letter.isdigit() for letter in mine + theirs)


def warn_of_alike(names: Sequence[str | None]) -> None:
    """Warn when two names look alike; they stay different categories, because we never guess about labels."""
    counts = Counter(name for name in names if name is not None)
    for group in alike_names(counts):
        warn(str(findings.look_alike(group, counts)))


def find_contradictions(
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
    return settled, tuple(problems)


def duplicates_to_drop(
    names: Sequence[str | None], file_names: Sequence[str], content_hashes: Sequence[str]
) -> dict[int, Problem]:
    """Return the rows that repeat the content of another one; of each content the first labelled file stays."""
    rows = sorted(range(len(names)), key=lambda row: names[row] is None)
    stays: dict[str, int] = {}
    for row in rows:
        stays.setdefault(content_hashes[row], row)
    return {
        row: Problem(file_names[row], "D12", f"same content as {file_names[stays[content_hashes[row]]]}; left out")
        for row in range(len(names))
        if stays[content_hashes[row]] != row
    }
