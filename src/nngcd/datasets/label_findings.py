"""Labels that are unclear, too few, look alike, or contradict each other."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping

from nngcd.core.counting import count
from nngcd.datasets.findings import Finding, Seen, quoted
from nngcd.datasets.holding_back import FEWEST
from nngcd.datasets.labels import NOTHING_TO_SORT, alike_names, find_contradictions, merge, unclear_names
from nngcd.datasets.listed import unused_names
from nngcd.datasets.split import Problem


def about_labels(seen: Seen) -> Iterator[Finding]:
    """Give what there is to say about labels."""
    for maker in (_labels, _unused, _alike, _copies, _not_listed, _remarks):
        yield from maker(seen)


def _labels(seen: Seen) -> Iterator[Finding]:
    sizes, n_readable = seen.sizes, sum(1 for _ in seen.readable)
    settled = {*seen.reading.unlabelled_names, *seen.reading.category_names}
    for name, number in unclear_names(seen.names, settled=settled).items():
        yield Finding(
            code="D08", severity="stop", what=f"{count(number, 'image')} labelled '{name}'",
            effect="is that a category, or 'no label'?",
            flags=f"--unlabelled {shlex.quote(name)} or --category {shlex.quote(name)}",
        )  # fmt: skip
    if n_readable and sizes.total() == n_readable:
        yield Finding(
            code="D06", severity="stop", what=f"all {count(n_readable, 'image')} labelled",
            effect=NOTHING_TO_SORT,
        )  # fmt: skip
    yield from about_sizes(sizes)


def about_sizes(sizes: Mapping[str, int]) -> Iterator[Finding]:
    """Give what there is to say about the labelled images of each category."""
    if not sizes:
        yield Finding(
            code="D05", severity="note", what="no labels",
            effect="grouping only: accuracy cannot be measured; naming a few categories helps a lot",
        )  # fmt: skip
    if len(sizes) == 1:
        yield Finding(
            code="D09", severity="warning", what=f"only one known category, '{next(iter(sizes))}'",
            effect="'known or new' will be weak: there is no other category to compare with",
        )  # fmt: skip
    if few := sorted(name for name, number in sizes.items() if number < FEWEST):
        yield Finding(
            code="D10", severity="note",
            what=f"{count(len(few), 'category', 'categories')} of fewer than {FEWEST} images: {quoted(few)}",
            effect="used for training; too few to tell how well they are recognised",
        )  # fmt: skip


def _unused(seen: Seen) -> Iterator[Finding]:
    if names := unused_names(seen.listed.labels, seen.reading):
        yield Finding(
            code="D08", severity="warning", what=f"no image is labelled {quoted(names)}",
            effect="what was said about it has no effect; is it spelt as in the data?",
        )  # fmt: skip


def _alike(seen: Seen) -> Iterator[Finding]:
    sizes = Counter(name for name in seen.names if name is not None)
    for group in alike_names(sizes):
        where = " and ".join(f"'{name}' ({sizes[name]:,})" for name in group)
        yield Finding(
            code="D07", severity="warning", what=f"{len(group)} category names look alike: {where}",
            effect="they stay different categories", flags=merge(group),
        )  # fmt: skip


def _copies(seen: Seen) -> Iterator[Finding]:
    files, names, contents, _ = zip(*seen.readable, strict=True) if any(True for _ in seen.readable) else ((),) * 4
    _, contradicted = find_contradictions(names, files, contents)
    groups = Counter(content for content, number in Counter(contents).items() if number > 1)
    if contradicted:
        yield Finding(
            code="D13", severity="warning", files=contradicted,
            what=f"{count(len(contradicted), 'image')} whose exact content carries two labels, first "
            f"'{contradicted[0].file_name}' ({contradicted[0].reason.split(';')[0]})",
            effect="used as unlabelled until you delete or relabel one of them",
        )  # fmt: skip
    if groups:
        first: dict[str, str] = {}
        for file_name, content in zip(files, contents, strict=True):
            first.setdefault(content, file_name)
        copies = tuple(
            Problem(file_name, "D12", f"same content as {first[content]}")
            for file_name, content in zip(files, contents, strict=True) if first[content] != file_name
        )  # fmt: skip
        yield Finding(
            code="D12", severity="note", what=f"{count(len(copies), 'exact duplicate')} in "
            f"{count(len(groups), 'group')}", files=copies,
            effect="left out but for one" if seen.reading.drop_duplicates else "all are used",
            flags="" if seen.reading.drop_duplicates else "--drop-duplicates",
        )  # fmt: skip


def _not_listed(seen: Seen) -> Iterator[Finding]:
    if rest := seen.listed.not_listed:
        yield Finding(
            code="D16", severity="warning", effect="left out", flags="--rest unlabelled (to sort them, too)",
            what=f"{count(len(rest), 'image')} in the folder that the table does not list, first '{rest[0]}'",
            files=tuple(Problem(name, "D16", "not in the table") for name in rest),
        )  # fmt: skip


def _remarks(seen: Seen) -> Iterator[Finding]:
    for note in seen.listed.notes:
        code, _, text = note.partition(": ")
        what, _, effect = text.partition("; ")
        yield Finding(code=code, severity="note", what=what, effect=effect)
