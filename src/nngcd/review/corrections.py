"""Corrections from a table, applied as one edit: names for categories, or categories for images."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nngcd.core.errors import DataError, NoSuchDataError, UserError, did_you_mean_path
from nngcd.review.session import Review
from nngcd.review.state import category_id, live_category

WHAT, TO = ("category", "file_name"), "label"


@dataclass(frozen=True, slots=True)
class Correction:
    """One row of the table: the category or image to correct, and its new name."""

    line: int
    is_category: bool
    what: str
    label: str


def read_corrections(path: Path) -> list[Correction]:
    """Return the rows of a CSV file with the columns `category` or `file_name`, and `label`."""
    if not path.exists():
        raise NoSuchDataError(f"{path} does not exist.{did_you_mean_path(path, Path.is_file)}")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path} ({error}). Save it as CSV in UTF-8.") from None
    rows = list(csv.reader(text.splitlines(), delimiter=";" if ";" in text.partition("\n")[0] else ","))
    columns = [name.strip() for name in rows[0]] if rows else []
    found = [name for name in WHAT if name in columns]
    if len(found) != 1 or TO not in columns:
        have = ", ".join(columns) or "none"
        raise DataError(f"{path} needs the columns label and either category or file_name (found: {have}).")
    what_at, label_at = columns.index(found[0]), columns.index(TO)
    made = []
    for line, row in enumerate(rows[1:], start=2):
        if not any(row):
            continue
        what, label = (row[at].strip() if at < len(row) else "" for at in (what_at, label_at))
        if not what or not label:
            raise DataError(f"line {line} of {path}: {found[0]} and label must not be empty.")
        made.append(Correction(line, found[0] == "category", what, label))
    return made


def apply_corrections(review: Review, corrections: list[Correction], *, is_preview: bool = False) -> list[str]:
    """Apply the corrections as one edit and describe each; a preview changes nothing.

    A category gets the name, or is merged into the category that has it. An image moves to the category of that name,
    or to a new one.

    Raises:
        UserError: a correction is impossible; none is then applied.
    """
    return as_one_edit(review, _done(review, corrections), is_preview=is_preview)


def as_one_edit(review: Review, changes: Iterator[str], *, is_preview: bool) -> list[str]:
    """Make the changes, which yield their words, as one edit and return the words; a preview changes nothing."""
    words: list[str] = []
    with suppress(_PreviewError), review.batch():
        words.extend(changes)
        if is_preview:
            raise _PreviewError
    return words


class _PreviewError(Exception):
    """Ends a batch before anything is written."""


def _done(review: Review, corrections: list[Correction]) -> Iterator[str]:
    for one in corrections:
        try:
            yield from _category(review, one) if one.is_category else _image(review, one)
        except UserError as error:
            raise UserError(f"line {one.line}: {error}") from None


def _category(review: Review, one: Correction) -> Iterator[str]:
    id_, other = category_id(review.state, one.what), category_id(review.state, one.label)
    if id_ in review.state.categories and review.state.merged(id_).name == one.label:
        return  # already so, for example because the table was applied before
    live_category(review.state, id_)
    if other in review.state.live and other != id_:
        review.merge([id_, other], into=other)
        yield f"merge '{one.what}' into '{one.label}'"
    else:
        review.rename(id_, one.label)
        yield f"name '{one.what}' '{one.label}'"


def _image(review: Review, one: Correction) -> Iterator[str]:
    to = category_id(review.state, one.label)
    if to in review.state.live:
        review.move([one.what], to=to)
        yield f"move '{one.what}' to '{one.label}'"
    else:
        review.rename(review.move([one.what]), one.label)
        yield f"move '{one.what}' to the new category '{one.label}'"
