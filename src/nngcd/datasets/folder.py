"""A folder of images: each sub-folder is a known category, loose images and `_unlabelled/` are to be sorted."""

from __future__ import annotations

import logging
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from nngcd.core.errors import DataError, NngcdWarning
from nngcd.datasets.file_tree import FileTree, walk
from nngcd.datasets.image_files import ALLOWED_BAD, EXTENSIONS, NOT_AN_IMAGE, Progress, keep_readable, unreadable_reason
from nngcd.datasets.labels import drop_contradictions, index_names, settle_unclear, warn_of_alike
from nngcd.datasets.split import Problem, Split, Truth, image_table

UNLABELLED_FOLDERS = ("_unlabeled", "_unlabelled", "unlabeled", "unlabelled")

_LOG = logging.getLogger(__name__)


def load(  # noqa: PLR0913 (options of one reader)
    root: Path | None,
    *,
    seed: int = 0,
    unlabelled_names: Iterable[str] = (),
    category_names: Iterable[str] = (),
    use_labels: bool = True,
    allow_bad: float = ALLOWED_BAD,
    on_progress: Progress | None = None,
) -> tuple[Split, Truth | None]:
    """Return the images of a folder, labelled by the name of the first-level sub-folder they lie in.

    Args:
        root: the folder.
        seed: not used; nothing here is random.
        unlabelled_names: unclear folder names, such as `unknown`, that mean "no label".
        category_names: unclear folder names that are categories.
        use_labels: False to read images that are only to be predicted, whatever their labels say.
        allow_bad: share of unreadable files above which the folder is refused.
        on_progress: called with the number of files checked and their total.

    Raises:
        DataError: no such folder, no images in it, an unclear name, or too many unreadable files.
    """
    if root is None:
        raise DataError("D01: the dataset 'folder' needs the path of a folder of images.")
    tree = walk(root)
    file_names = _image_names(root, tree)
    names = [_label_of(name) if use_labels else None for name in file_names]
    names = settle_unclear(names, unlabelled_names=unlabelled_names, category_names=category_names)
    warn_of_alike(names)
    _warn_if_nested(file_names, names)

    readable = keep_readable(root, file_names, allow_bad=allow_bad, on_progress=on_progress)
    images = readable.images
    names = [names[index] for index in readable.kept]
    names, contradictions = drop_contradictions(names, images.file_names, readable.content_hashes)
    labels, class_names = index_names(names)
    problems = (*_empty_folders(tree, file_names), *tree.problems, *readable.problems, *contradictions)
    split = Split(
        name=root.resolve().name,
        images=images,
        features_nvd=None,
        labels=labels,
        class_names=class_names,
        table=image_table(images.file_names, readable.content_hashes),
        problems=problems,
    )
    return split, None


def _image_names(root: Path, tree: FileTree) -> list[str]:
    is_image = {name: _may_be_image(root, name) for name in tree.file_names}
    images = [name for name, is_one in is_image.items() if is_one]
    others = Counter(PurePosixPath(name).suffix.lower() or "no extension" for name in is_image if not is_image[name])
    found = ", ".join(f"{count:,} {extension}" for extension, count in others.most_common())
    if not images:
        found = f"found {others.total():,} files: {found}" if others else "found 0 files"
        raise DataError(
            f"D02: no images in '{root}' ({found}). Readable: {' '.join(EXTENSIONS)}. RAW is not read; convert it "
            f"first. Expected {root}/<category>/<image>, and images without a label in {root}/_unlabelled/."
        )
    if others:
        _LOG.info("files in %s that are not images and were left out: %s", root, found)
    return images


def _may_be_image(root: Path, file_name: str) -> bool:
    suffix = PurePosixPath(file_name).suffix.lower()
    # Files of other types are not opened: a RAW file looks like a TIFF, and would be read as its thumbnail.
    return suffix in EXTENSIONS or (not suffix and unreadable_reason(root / file_name) not in NOT_AN_IMAGE)


def _label_of(file_name: str) -> str | None:
    first, *rest = PurePosixPath(file_name).parts
    if not rest or first.casefold() in UNLABELLED_FOLDERS:
        return None
    # macOS writes accents as separate characters; the same name must not become two categories.
    return unicodedata.normalize("NFC", first)


def _warn_if_nested(file_names: Sequence[str], names: Sequence[str | None]) -> None:
    labelled = [name for name, label in zip(file_names, names, strict=True) if label is not None]
    nested = [name for name in labelled if len(PurePosixPath(name).parts) > 2]
    if nested:
        text = (
            f"D30: {len(nested):,} labelled images lie deeper than one level, first '{nested[0]}'; "
            f"the first level is the category. If that is wrong, move them up or use a manifest."
        )
        warnings.warn(text, NngcdWarning, stacklevel=3)


def _empty_folders(tree: FileTree, image_names: Sequence[str]) -> list[Problem]:
    used = {PurePosixPath(name).parts[0] for name in image_names}
    empty = [name for name in tree.folders if name not in used and name.casefold() not in UNLABELLED_FOLDERS]
    return [Problem(name, "D29", "empty category folder") for name in empty]
