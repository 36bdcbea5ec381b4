"""A folder of images: each sub-folder is a known category, loose images and `_unlabelled/` are to be sorted."""

from __future__ import annotations

import logging
import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from nngcd.core.errors import DataError
from nngcd.core.progress import OnProgress
from nngcd.core.words import count, quoted
from nngcd.data.file_tree import FileTree, walk
from nngcd.data.findings import Finding
from nngcd.data.image_files import EXTENSIONS, NOT_AN_IMAGE, unreadable_reason
from nngcd.data.labels import UNLABELLED_FOLDERS
from nngcd.data.listed import Listed, read
from nngcd.data.reading_settings import DEFAULT, ReadingSettings
from nngcd.data.shrinking import Shrinker
from nngcd.data.split import EMPTY_FOLDER, Problem, Split, Truth

_LOG = logging.getLogger(__name__)


def load(
    root: Path | None,
    *,
    reading: ReadingSettings = DEFAULT,
    use_labels: bool = True,
    on_progress: OnProgress | None = None,
    shrinker: Shrinker | None = None,
) -> tuple[Split, Truth | None]:
    """Return the images of a folder, labelled by the name of the first-level sub-folder they are in."""
    return read(find(root, reading, use_labels=use_labels), reading, on_progress=on_progress, shrinker=shrinker), None


def find(root: Path | None, reading: ReadingSettings = DEFAULT, *, use_labels: bool = True) -> Listed:
    """Return the images in a folder and their labels; none is opened."""
    if root is None:
        raise DataError("D01: the dataset 'folder' needs the path of a folder of images.")
    tree = walk(root, follow_links=reading.follow_links)
    file_names, ignored = images_among(root, tree.file_names)
    on_hidden = notes_on_hidden(tree)
    if not file_names:
        raise _no_images(root, ignored, on_hidden)
    if ignored:
        _LOG.info("%d files in %s are not images and were left out", len(ignored), root)
    labels = [label_of(name, reading.label_level) if use_labels else None for name in file_names]
    return Listed(
        name=root.resolve().name,
        folder=root,
        file_names=file_names,
        labels=labels,
        problems=[*_empty_folders(tree, file_names), *tree.problems],
        ignored=ignored,
        notes=[*_notes_on_nesting(file_names, labels, reading.label_level), *on_hidden],
    )


def images_among(root: Path, file_names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the files that are images by their name, or by their content where the name has no ending; the others."""
    is_image = [_may_be_image(root, name) for name in file_names]
    images = [name for name, is_one in zip(file_names, is_image, strict=True) if is_one]
    return images, [name for name, is_one in zip(file_names, is_image, strict=True) if not is_one]


def _no_images(root: Path, ignored: Sequence[str], notes: Sequence[Finding]) -> DataError:
    found = f"found {len(ignored):,} files: {endings(ignored)}" if ignored else "found 0 files"
    return DataError(
        f"D02: no images in '{root}' ({found}). Readable: {' '.join(EXTENSIONS)}. RAW is not supported; convert it "
        f"first. Expected {root}/<category>/<image>, and images without a label in {root}/_unlabelled/."
        + "".join(f" {note}" for note in notes)
    )


def endings(file_names: Sequence[str]) -> str:
    """Return how many files there are of each ending, the most frequent first."""
    counts = Counter(PurePosixPath(name).suffix.lower() or "no extension" for name in file_names)
    return ", ".join(f"{count:,} {ending}" for ending, count in counts.most_common())


def _may_be_image(root: Path, file_name: str) -> bool:
    suffix = PurePosixPath(file_name).suffix.lower()
    # Files of other types are not opened: a RAW file looks like a TIFF, and would be read as its thumbnail.
    return suffix in EXTENSIONS or (not suffix and unreadable_reason(root / file_name) not in NOT_AN_IMAGE)


def label_of(file_name: str, level: int) -> str | None:
    """Return the category that the folders of an image name, None where it has none or is unlabelled."""
    folders = PurePosixPath(file_name).parts[:-1]
    if len(folders) < level or any(name.casefold() in UNLABELLED_FOLDERS for name in folders[:level]):
        return None
    # macOS writes accents as separate characters; the same name must not become two categories.
    return unicodedata.normalize("NFC", folders[level - 1])


def _notes_on_nesting(file_names: Sequence[str], labels: Sequence[str | None], level: int) -> list[Finding]:
    if level > 1:
        return []
    labelled = [name for name, label in zip(file_names, labels, strict=True) if label is not None]
    nested = [name for name in labelled if len(PurePosixPath(name).parts) > 2]
    return [
        Finding(
            code="D30", severity="note", effect="the first level is the category", flags="--label-level 2",
            what=f"{count(len(nested), 'labelled image')} deeper than one level, first '{nested[0]}'",
        )
    ] if nested else []  # fmt: skip


def notes_on_hidden(tree: FileTree) -> list[Finding]:
    """Return a note on images that nobody will see because their folder's name begins with a dot."""
    n_images = {
        folder: sum(PurePosixPath(name).suffix.lower() in EXTENSIONS for name in names)
        for folder, names in tree.hidden.items()
    }
    total, folders = sum(n_images.values()), [folder for folder, number in n_images.items() if number]
    left_out = f"{count(total, 'image')} in hidden folders {'is' if total == 1 else 'are'} left out"
    return [
        Finding(
            code="D28", severity="note", what=f"{left_out}: {quoted(folders)}",
            effect="rename a folder to use its images",
        )
    ] if folders else []  # fmt: skip


def _empty_folders(tree: FileTree, image_names: Sequence[str]) -> list[Problem]:
    used = {PurePosixPath(name).parts[0] for name in image_names}
    empty = [name for name in tree.folders if name not in used and name.casefold() not in UNLABELLED_FOLDERS]
    return [Problem(name, EMPTY_FOLDER, "empty category folder") for name in empty]
