"""Findings about labels that are unclear, too few, look alike, or contradict each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from nngcd.checking.seen import Seen
from nngcd.core.words import count
from nngcd.data.findings import Finding, about_sizes, all_labelled, contradicted, look_alike, said_in_vain, unclear
from nngcd.data.labels import alike_names, find_contradictions, unclear_names
from nngcd.data.listed import unused_names
from nngcd.data.split import Problem


def about_labels(seen: Seen) -> Iterator[Finding]:
    """Yield the findings about labels."""
    for maker in (_labels, _names, _copies, _not_listed):
        yield from maker(seen)
    yield from seen.listed.notes


def _labels(seen: Seen) -> Iterator[Finding]:
    sizes, n_readable = seen.sizes, sum(1 for _ in seen.readable)
    settled = {*seen.reading.unlabelled_names, *seen.reading.category_names}
    for name, number in unclear_names(seen.names, settled=settled).items():
        yield unclear(name, number)
    if n_readable and sizes.total() == n_readable:
        yield all_labelled(n_readable)
    yield from about_sizes(sizes)


def _names(seen: Seen) -> Iterator[Finding]:
    if names := unused_names(seen.listed.labels, seen.reading):
        yield said_in_vain(names)
    sizes = Counter(name for name in seen.names if name is not None)
    for group in alike_names(sizes):
        yield look_alike(group, sizes)


def _copies(seen: Seen) -> Iterator[Finding]:
    files, names, contents, _ = zip(*seen.readable, strict=True) if any(True for _ in seen.readable) else ((),) * 4
    _, contradictions = find_contradictions(names, files, contents)
    groups = Counter(content for content, number in Counter(contents).items() if number > 1)
    if contradictions:
        yield contradicted(contradictions)
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
            effect="all but one are left out" if seen.reading.drop_duplicates else "all are used",
            flags="" if seen.reading.drop_duplicates else "--drop-duplicates",
        )  # fmt: skip


def _not_listed(seen: Seen) -> Iterator[Finding]:
    if rest := seen.listed.not_listed:
        yield Finding(
            code="D16", severity="warning", effect="left out", flags="--rest unlabelled (to sort them as well)",
            what=f"{count(len(rest), 'image')} in the folder but not in the table, first '{rest[0]}'",
            files=tuple(Problem(name, "D16", "not in the table") for name in rest),
        )  # fmt: skip
