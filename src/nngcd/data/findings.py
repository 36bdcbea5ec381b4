"""Findings about labels and files, each worded once: `nngcd check` lists them, `nngcd fit` warns of them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nngcd.core.words import count, quoted

if TYPE_CHECKING:
    from nngcd.data.split import Problem, Split

Severity = Literal["stop", "warning", "note"]
FEWEST = 5
"""A category with fewer labelled images is used for training, but not to measure accuracy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fact that the user should know about the data; as text, the warning of `nngcd fit`.

    Args:
        code: its entry in docs/reference/bad-input.md.
        severity: stops `nngcd fit`, is a warning, or is only a note.
        what: what was found, and where.
        effect: what `nngcd fit` does about it.
        flags: the flags that change that.
        files: the files concerned.
        share: the share of bad files or rows, where too large a share stops a fit.
    """

    code: str
    severity: Severity
    what: str
    effect: str
    flags: str = ""
    files: tuple[Problem, ...] = ()
    share: float = 0.0

    def __str__(self) -> str:
        end = "" if self.effect.endswith("?") else "."
        way_out = f" {'Use' if self.severity == 'stop' else 'To change this'}: {self.flags}" if self.flags else ""
        return f"{self.code}: {self.what}; {self.effect}{end}{way_out}"


def no_labels() -> Finding:
    """D05: every image is to be sorted."""
    return Finding(
        code="D05", severity="note", what="no labels",
        effect="images are only grouped, and accuracy cannot be measured; labelling a few categories helps a lot",
    )  # fmt: skip


def all_labelled(n_images: int) -> Finding:
    """D06: no image is to be sorted."""
    return Finding(
        code="D06", severity="stop", what=f"all {count(n_images, 'image')} are labelled",
        effect="nothing to sort. Put images without a label into _unlabelled/, or leave their label empty (-1 in an "
        "array). To test the method on your own labels, add --set reading.hide_classes=0.5 to nngcd fit",
    )  # fmt: skip


def look_alike(names: Sequence[str], sizes: Mapping[str, int]) -> Finding:
    """D07: some names may be spellings of one category."""
    where = " and ".join(f"'{name}' ({sizes[name]:,})" for name in names)
    return Finding(
        code="D07", severity="warning", what=f"{len(names)} category names look alike: {where}",
        effect="kept as separate categories",
        flags=" ".join(f"--same {shlex.quote(f'{names[0]}={other}')}" for other in names[1:]),
    )  # fmt: skip


def unclear(name: str, n_images: int, *, in_array: bool = False) -> Finding:
    """D08: a name that may mean a category or no label; nngcd asks instead of guessing."""
    of_files = (
        f"{count(n_images, 'image')} labelled '{name}'",
        f"--unlabelled {shlex.quote(name)} or --category {shlex.quote(name)}",
    )
    of_array = f"y holds '{name}' {n_images:,} times", "-1 or '' for no label, or another name for the category"
    what, flags = of_array if in_array else of_files
    return Finding(
        code="D08", severity="stop", what=what, effect="does that mean a category, or no label?", flags=flags
    )  # fmt: skip


def said_in_vain(names: Sequence[str]) -> Finding:
    """D08: a flag names a label that no image has."""
    return Finding(
        code="D08", severity="warning", what=f"no image is labelled {quoted(names)}",
        effect="the flag has no effect; check the spelling",
    )  # fmt: skip


def one_category(name: str) -> Finding:
    """D09: only one category is known."""
    return Finding(
        code="D09", severity="warning", what=f"only one known category, '{name}'",
        effect="telling known from new will be unreliable without a second category to compare with",
    )  # fmt: skip


def small_categories(names: Sequence[str]) -> Finding:
    """D10: categories of few labelled images."""
    return Finding(
        code="D10", severity="note",
        what=f"{count(len(names), 'category', 'categories')} with fewer than {FEWEST} images: {quoted(names)}",
        effect="used for training, but too few to measure accuracy",
    )  # fmt: skip


def contradicted(files: tuple[Problem, ...]) -> Finding:
    """D13: files of one content carry two labels."""
    return Finding(
        code="D13", severity="warning", files=files,
        what=f"{count(len(files), 'image')} with an exact copy under another label, first "
        f"'{files[0].file_name}' ({files[0].reason.split(';')[0]})",
        effect="used as unlabelled until you delete or relabel one of them",
    )  # fmt: skip


def about_sizes(sizes: Mapping[str, int]) -> Iterator[Finding]:
    """Yield the findings about the number of labelled images in each category."""
    if not sizes:
        yield no_labels()
    if len(sizes) == 1:
        yield one_category(next(iter(sizes)))
    if few := sorted(name for name, number in sizes.items() if number < FEWEST):
        yield small_categories(few)


def notes_of(split: Split) -> list[Finding]:
    """Return the notes of `nngcd fit` on the labels; none for a benchmark."""
    return [one_category(split.class_names[0])] if split.n_old == 1 and split.n_classes is None else []
