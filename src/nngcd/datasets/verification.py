"""A copy of a benchmark checked as a whole: every file read, every image counted, nothing changed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nngcd.core.errors import DataError
from nngcd.core.progress import Counted, Progress
from nngcd.data.image_files import ALLOWED_BAD
from nngcd.data.reading_settings import ReadingSettings
from nngcd.data.split import Problem, Split
from nngcd.datasets.counts import ImageCount, Part, count_images
from nngcd.datasets.opening import open_dataset
from nngcd.datasets.published_splits import published_split


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport:
    """Counts in a copy of a benchmark, and the published ones.

    Args:
        name: the benchmark.
        root: where the copy is.
        n_old: the number of old classes.
        n_new: the number of new classes.
        counts: images expected and found.
        split_hash: the `Split.fingerprint` of the training images and their labels.
        problems: files that cannot be used, of both parts.
        why_no_test: what is missing when there are no test images, which only `evaluate --split test` needs.
    """

    name: str
    root: str
    n_old: int
    n_new: int
    counts: tuple[ImageCount, ...]
    split_hash: str
    problems: tuple[Problem, ...]
    why_no_test: str | None

    @property
    def is_right(self) -> bool:
        """Whether all images are there and can be read; test images may be absent altogether."""
        return not self.problems and all(count.is_right for count in self.counts)


def verify(name: str, root: Path, *, progress: Progress, allow_bad: float = ALLOWED_BAD) -> CopyReport:
    """Return what the copy of a benchmark in a folder holds, after reading every file of it.

    Raises:
        DataError: the folder is not in the benchmark's layout, or too many files cannot be read.
    """
    published = published_split(name)
    train = _open(name, root, "train", progress=progress, allow_bad=allow_bad)
    try:
        test, why_no_test = _open(name, root, "test", progress=progress, allow_bad=allow_bad), None
    except DataError as error:
        test, why_no_test = None, str(error)
    counts = [*count_images(train, published), *(count_images(test, published, part="test") if test else [])]
    return CopyReport(
        name=name,
        root=str(root.resolve()),
        n_old=train.n_old,
        n_new=published.n_classes - train.n_old,
        counts=tuple(counts),
        split_hash=train.fingerprint,
        problems=(*train.problems, *(test.problems if test else ())),
        why_no_test=why_no_test,
    )


def _open(name: str, root: Path, part: Part, *, progress: Progress, allow_bad: float) -> Split:
    stage = Counted(progress, f"reading {part}")
    reading = ReadingSettings(allow_bad=allow_bad)
    split, _ = open_dataset(str(root), dataset=name, reading=reading, part=part, on_progress=stage)
    stage.finish()
    return split
