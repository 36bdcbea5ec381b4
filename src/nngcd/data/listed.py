"""Images that a folder or a table lists, and the way from there to a `Split`, for `nngcd fit` and `nngcd check`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from nngcd.core.errors import warn
from nngcd.core.progress import OnProgress
from nngcd.core.seeds import numpy_generator
from nngcd.data.findings import Finding, contradicted, said_in_vain
from nngcd.data.image_files import ALLOW_BAD_FLAG, FileCheck, check_files, readable_of, refuse_if_many
from nngcd.data.labels import duplicates_to_drop, find_contradictions, index_names, settle_unclear, warn_of_alike
from nngcd.data.packs import Pack
from nngcd.data.reading_settings import ReadingSettings
from nngcd.data.shrinking import Shrinker
from nngcd.data.split import Problem, Split, image_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Images and their labels, as a folder or table lists them: nothing is opened or decided yet.

    Args:
        name: the name of the data, for titles and run folders.
        folder: what the file names are relative to, or what they are packed in.
        file_names: (n) files to be read, with forward slashes.
        labels: (n) the text given for each, or None.
        splits: (n) carried through from a table.
        groups: (n) carried through from a table.
        problems: what is left out already: links, names, empty folders.
        missing: files that a table lists and that are not there.
        n_rows: rows of that table, missing files included; 0 without a table.
        ignored: files that are not images.
        not_listed: images in the folder that the table does not list and that are left out.
        notes: what else the user should know.
        hint: what to try when many files are missing.
    """

    name: str
    folder: Path | Pack
    file_names: Sequence[str]
    labels: Sequence[str | None]
    splits: Sequence[str | None] | None = None
    groups: Sequence[str | None] | None = None
    problems: Sequence[Problem] = ()
    missing: Sequence[Problem] = ()
    n_rows: int = 0
    ignored: Sequence[str] = ()
    not_listed: Sequence[str] = ()
    notes: Sequence[Finding] = ()
    hint: str = ""


def read(
    listed: Listed,
    reading: ReadingSettings,
    *,
    checks: Sequence[FileCheck] | None = None,
    on_progress: OnProgress | None = None,
    shrinker: Shrinker | None = None,
) -> Split:
    """Return the split of what is listed, with warnings of what the user should know.

    Raises:
        DataError: an unclear label, or too many files are missing or unreadable.
    """
    if reading.sample and checks is None:
        listed = thinned(listed, reading.sample)
    names = settled_names(listed.labels, reading)
    warn_of_unused(listed.labels, reading)
    warn_of_alike(names)
    warn_of_notes(listed)
    # Of the table's rows, not of all images: a short table of labels would never reach the limit.
    refuse_if_many(
        listed.missing, n_files=listed.n_rows, allow_bad=reading.allow_bad,
        what="rows of the table", hint=listed.hint, flag=ALLOW_BAD_FLAG,
    )  # fmt: skip
    if checks is None:
        checks = check_files(
            listed.folder, listed.file_names, decoding=reading.decoding, on_progress=on_progress, shrinker=shrinker
        )
    readable = readable_of(
        listed.folder, listed.file_names, checks,
        allow_bad=reading.allow_bad, decoding=reading.decoding, flag=ALLOW_BAD_FLAG,
    )  # fmt: skip
    kept = readable.kept.tolist()
    names, contradictions = find_contradictions(
        [names[index] for index in kept], readable.images.file_names, readable.content_hashes
    )
    if contradictions:
        warn(str(contradicted(contradictions)))
    problems = [*listed.problems, *listed.missing, *readable.problems, *contradictions]
    if reading.drop_duplicates:
        copies = duplicates_to_drop(names, readable.images.file_names, readable.content_hashes)
        problems += copies.values()
        kept = [place for row, place in enumerate(kept) if row not in copies]
        names = [name for row, name in enumerate(names) if row not in copies]
    return _assembled(listed, reading, checks, kept=kept, names=names, problems=problems)


def thinned(listed: Listed, n: int) -> Listed:
    """Return a list of images with all labelled ones and, up to `n` in all, others chosen at random."""
    is_free = np.array([label is None for label in listed.labels], dtype=np.bool_)
    n_wanted = max(n - int((~is_free).sum()), 0)
    free = np.flatnonzero(is_free)
    if len(free) <= n_wanted:
        return listed
    kept = ~is_free
    kept[numpy_generator(0, "sample").permutation(free)[:n_wanted]] = True
    rows = np.flatnonzero(kept).tolist()

    def of_rows(column: Sequence[str | None] | None) -> list[str | None] | None:
        return None if column is None else [column[row] for row in rows]

    return replace(
        listed,
        file_names=[listed.file_names[row] for row in rows],
        labels=[listed.labels[row] for row in rows],
        splits=of_rows(listed.splits),
        groups=of_rows(listed.groups),
    )


def warn_of_notes(listed: Listed) -> None:
    """Warn of what the user should know of a folder or table besides its problems."""
    for note in listed.notes:
        warn(str(note))


def settled_names(labels: Sequence[str | None], reading: ReadingSettings) -> list[str | None]:
    """Return the category of each image: other spellings replaced, what means "no label" taken out."""
    same = reading.name_of
    renamed = [None if label is None else same.get(label, label) for label in labels]
    return settle_unclear(renamed, unlabelled_names=reading.unlabelled_names, category_names=reading.category_names)


def warn_of_unused(labels: Sequence[str | None], reading: ReadingSettings) -> None:
    """Warn of what the user said about names that no image carries."""
    if names := unused_names(labels, reading):
        warn(str(said_in_vain(names)))


def unused_names(labels: Sequence[str | None], reading: ReadingSettings) -> list[str]:
    """Return the names of which the user said something and that no image carries; none where there are no labels."""
    given = {label for label in labels if label is not None}
    found = given | {reading.name_of.get(label, label) for label in given}
    named = (*reading.name_of, *reading.unlabelled_names, *reading.category_names)
    return [name for name in named if name not in found] if found else []


def _assembled(
    listed: Listed,
    reading: ReadingSettings,
    checks: Sequence[FileCheck],
    *,
    kept: Sequence[int],
    names: Sequence[str | None],
    problems: Sequence[Problem],
) -> Split:
    readable = readable_of(
        listed.folder, [listed.file_names[place] for place in kept], [checks[place] for place in kept],
        decoding=reading.decoding,
    )  # fmt: skip
    labels, class_names = index_names(names)
    carried = [None if column is None else [column[place] for place in kept]
               for column in (listed.splits, listed.groups)]  # fmt: skip
    return Split(
        name=listed.name,
        images=readable.images,
        features_nvd=None,
        labels=labels,
        class_names=class_names,
        table=image_table(readable.images.file_names, readable.content_hashes, split=carried[0], group=carried[1]),
        problems=tuple(problems),
    )
