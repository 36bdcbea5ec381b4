"""The report of `nngcd check`: a summary of the data, the problems found, and whether `nngcd fit` accepts them."""

from __future__ import annotations

import dataclasses
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nngcd.checking.file_findings import about_files
from nngcd.checking.label_findings import about_labels
from nngcd.checking.near_findings import NEAR_COLUMNS, about_near, near_table
from nngcd.checking.seen import Seen
from nngcd.checking.words import report_words
from nngcd.core.errors import DataError
from nngcd.core.files import write_json, write_table
from nngcd.core.progress import OnProgress
from nngcd.data.findings import Finding, about_sizes, all_labelled
from nngcd.data.holding_back import content_of
from nngcd.data.image_files import FileCheck, check_files
from nngcd.data.labels import find_contradictions, unclear_names
from nngcd.data.listed import Listed, read, settled_names
from nngcd.data.near_copies import copies_of_looks, near_copies
from nngcd.data.reading_settings import ReadingSettings
from nngcd.data.split import Problem, Split
from nngcd.datasets import folder, manifest
from nngcd.datasets.opening import changed, locate, open_dataset

PROBLEM_COLUMNS = ("file_name", "code", "severity", "reason")
_ORDER = ("stop", "warning", "note")
COPY_COLUMNS = ("group", "file_name", "label", "has_conflict")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CheckReport:
    """The findings about some data. Printing it gives the text of `nngcd check`.

    Args:
        data: what was checked.
        n_files: files looked at, images and others.
        n_images: images that can be read.
        category_sizes: the number of labelled images of each known category.
        findings: the problems found; those that stop a fit come first.
        duplicates: one row per file that has an exact copy.
        near_copies: one row per group of near-identical images.
        refusal: why a fit would refuse the data; None if it would accept them.
        split: the data as a fit would get them; None if it would refuse them.
        seconds: estimated seconds of a fit for each effort, if asked for.
        timing: how these were estimated.
        other_networks: a line for each network that could be used instead, with its time.
        flags: the flags of reading, as typed.
    """

    data: str
    n_files: int
    n_images: int
    category_sizes: dict[str, int]
    findings: tuple[Finding, ...] = ()
    duplicates: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(COPY_COLUMNS)), repr=False)
    near_copies: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(NEAR_COLUMNS)), repr=False)
    refusal: str | None = None
    split: Split | None = field(default=None, repr=False)
    seconds: dict[str, float] | None = None
    timing: str = ""
    other_networks: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(report_words(self))

    @property
    def n_labelled(self) -> int:
        """The number of labelled images."""
        return sum(self.category_sizes.values())

    @property
    def n_unlabelled(self) -> int:
        """The number of images to sort."""
        return self.n_images - self.n_labelled

    @property
    def is_ready(self) -> bool:
        """Whether `nngcd fit` accepts the data as they are."""
        return self.refusal is None

    @property
    def has_problems(self) -> bool:
        """Whether any finding is a warning or stops a fit; notes do not count."""
        return not self.is_ready or any(finding.severity != "note" for finding in self.findings)

    @property
    def problems(self) -> pd.DataFrame:
        """One row per file and problem: file_name, code, severity, reason."""
        rows = [
            (problem.file_name, finding.code, finding.severity, problem.reason)
            for finding in self.findings
            for problem in finding.files
        ]
        return pd.DataFrame(rows, columns=list(PROBLEM_COLUMNS))

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain values, without the lists of files."""
        return {
            "data": self.data,
            "is_ready": self.is_ready,
            "refusal": self.refusal,
            "n_files": self.n_files,
            "n_images": self.n_images,
            "n_labelled": self.n_labelled,
            "n_unlabelled": self.n_unlabelled,
            "categories": self.category_sizes,
            "n_duplicate_groups": int(self.duplicates["group"].nunique()),
            "n_conflicting_groups": int(self.duplicates.groupby("group")["has_conflict"].any().sum()),
            "n_near_identical_groups": len(self.near_copies),
            "findings": [
                {"code": f.code, "severity": f.severity, "what": f.what, "effect": f.effect, "flags": f.flags,
                 "n_files": len(f.files)} for f in self.findings
            ],
            "seconds": self.seconds,
            "timing": self.timing,
        }  # fmt: skip

    def write(self, out: Path) -> None:
        """Write summary.json, problems.csv, duplicates.csv and near_copies.csv, each atomically."""
        write_table(out / "problems.csv", self.problems)
        write_table(out / "duplicates.csv", self.duplicates)
        write_table(out / "near_copies.csv", self.near_copies)
        write_json(out / "summary.json", self.to_json())


def check_data(
    data: str,
    *,
    dataset: str | None = None,
    reading: ReadingSettings | None = None,
    on_progress: OnProgress | None = None,
) -> CheckReport:
    """Return the report on a folder, table, array file or data set. Every image is read, and none is changed.

    Raises:
        DataError: there is nothing to check: no such folder, no images in it, or an unreadable table.
    """
    name, root, reading = locate(data, dataset, reading)
    if name not in ("folder", "manifest"):
        return check_split(open_dataset(data, dataset=dataset, reading=reading, on_progress=on_progress)[0], data)
    assert not isinstance(root, str)
    found = folder.find(root, reading) if name == "folder" else manifest.find(root, reading, wants_rest=True)
    checks = check_files(found.folder, found.file_names, decoding=reading.decoding, on_progress=on_progress)
    return check_listed(found, reading, checks, data=data)


def check_listed(listed: Listed, reading: ReadingSettings, checks: tuple[FileCheck, ...], *, data: str) -> CheckReport:
    """Return the report on a folder or table whose files have all been examined."""
    seen = Seen(listed, reading, checks, _names(listed, reading))
    near = _near(seen)
    found = [*about_files(seen), *about_labels(seen), *about_near(near)]
    findings = sorted(found, key=lambda finding: _ORDER.index(finding.severity))
    split, refusal = None, next((str(f) for f in findings if f.severity == "stop"), None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            split, _ = changed(read(listed, reading, checks=checks), None, reading)
    except DataError as error:
        refusal = str(error)
    return CheckReport(
        data=data,
        n_files=len(listed.file_names) + len(listed.ignored),
        n_images=sum(check.facts is not None for check in checks),
        category_sizes=_sizes(seen),
        findings=tuple(findings),
        duplicates=_duplicates(seen),
        near_copies=near,
        refusal=refusal,
        split=split if refusal is None else None,
    )


def _names(listed: Listed, reading: ReadingSettings) -> list[str | None]:
    """Return the category of each image as `fit` would see it if every unclear name were a category."""
    renamed = [None if label is None else reading.name_of.get(label, label) for label in listed.labels]
    unclear = tuple(set(unclear_names(renamed)) - set(reading.unlabelled_names))
    return settled_names(listed.labels, dataclasses.replace(reading, category_names=unclear))


def _sizes(seen: Seen) -> dict[str, int]:
    """Return how many images each category has for a fit, which treats images with two labels as unlabelled."""
    rows = list(seen.readable)
    names, _ = find_contradictions([row[1] for row in rows], [row[0] for row in rows], [row[2] for row in rows])
    return dict(sorted(Counter(name for name in names if name is not None).items()))


def _near(seen: Seen) -> pd.DataFrame:
    rows = list(seen.readable)
    near = copies_of_looks([facts.look for _, _, _, facts in rows])
    return near_table(near, [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])


def _duplicates(seen: Seen) -> pd.DataFrame:
    rows = [(content, file_name, name) for file_name, name, content, _ in seen.readable]
    table = pd.DataFrame(rows, columns=["content", "file_name", "label"])
    table = table[table.duplicated("content", keep=False)]
    n_names = table.groupby("content")["label"].transform("nunique") if len(table) else pd.Series(dtype="int64")
    table = table.assign(group=1 + pd.factorize(table["content"])[0], has_conflict=n_names > 1)
    return table.sort_values(["group", "file_name"])[list(COPY_COLUMNS)].reset_index(drop=True)


def check_split(split: Split, data: str) -> CheckReport:
    """Return the report on data other than the user's files: arrays, digits, benchmarks."""
    names = np.array([*split.class_names, ""], dtype=object)[split.labels]
    sizes = Counter(str(name) for name in names if name)
    by_code: dict[str, list[Problem]] = {}
    for problem in split.problems:
        by_code.setdefault(problem.code, []).append(problem)
    left_out = (
        Finding(
            code=code, severity="warning", files=tuple(problems), effect="left out",
            what=f"{len(problems):,} files, first '{problems[0].file_name}': {problems[0].reason}",
        )
        for code, problems in by_code.items()
    )  # fmt: skip
    near = _near_in(split, [str(name) or None for name in names])
    findings = sorted([*left_out, *about_sizes(sizes), *about_near(near)], key=lambda one: _ORDER.index(one.severity))
    is_labelled = split.n_labelled == len(split)
    refusal = str(all_labelled(len(split))) if is_labelled else None
    return CheckReport(
        data=data, n_files=len(split) + len(split.problems), n_images=len(split),
        category_sizes=dict(sorted(sizes.items())), findings=tuple(findings), refusal=refusal, split=split,
        near_copies=near,
    )  # fmt: skip


def _near_in(split: Split, names: list[str | None]) -> pd.DataFrame:
    """Return the groups of near-identical arrays; benchmarks hold nothing back and need none."""
    if split.n_classes is not None:
        return pd.DataFrame(columns=list(NEAR_COLUMNS))
    contents = [content_of(split, row) for row in range(len(split))]
    return near_table(near_copies(split), split.table["file_name"].tolist(), names, contents)
