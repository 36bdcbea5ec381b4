"""Arrays instead of files: an `.npz` with `X` and optionally `y`, or the same two from Python."""

from __future__ import annotations

import hashlib
import math
import zipfile
from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from nngcd.core.errors import DataError, warn
from nngcd.data.file_tree import no_such_path
from nngcd.data.findings import unclear
from nngcd.data.image_arrays import ImageArrays
from nngcd.data.labels import index_names, unclear_names
from nngcd.data.listed import settled_names, warn_of_unused
from nngcd.data.reading_settings import ReadingSettings
from nngcd.data.split import Split, Truth, image_table


def load(
    root: Path | None, *, reading: ReadingSettings | None = None, use_labels: bool = True
) -> tuple[Split, Truth | None]:
    """Return the images or features of an `.npz` file with `X` and optionally `y`; see `from_arrays`.

    Raises:
        DataError: the file is missing, holds Python objects or lacks `X`, or a label is unclear.
    """
    if root is None:
        raise DataError("D01: the dataset 'arrays' needs the path of an .npz file.")
    values, labels = _read(root, use_labels=use_labels)
    names = _label_names(labels, n_items=len(np.atleast_1d(values)))
    reading = reading or ReadingSettings()
    warn_of_unused(names, reading)
    return _split(values, settled_names(names, reading), root.stem), None


def from_arrays(X: ArrayLike, y: ArrayLike | None = None, *, name: str = "arrays") -> Split:  # noqa: N803 (as scikit-learn)
    """Return a split of arrays.

    Args:
        X: (n, d) features, (n, views, d) features, or uint8 images of shape (n, h, w) or (n, h, w, channels).
        y: (n,) labels of any kind, with -1, None, NaN or "" for unlabelled; without it nothing is labelled.
        name: the name of the split.

    Raises:
        DataError: X is neither features nor images, holds NaN or too large values, or does not match y; or y holds a
            label such as 'unknown' or -2.
    """
    array = plain_array(X)
    names = _label_names(y, n_items=len(np.atleast_1d(array)))
    for unclear_name, count in unclear_names(names).items():  # such as text made of NaN or None
        raise DataError(str(unclear(unclear_name, count, in_array=True)))
    return _split(array, names, name)


def plain_array(values: ArrayLike) -> NDArray[Any]:
    """Return what was given as a numpy array; a tensor may be on another device or need a gradient.

    Raises:
        DataError: it is sparse or has masked values, which numpy would lose in silence.
    """
    if hasattr(values, "toarray"):
        raise DataError("X is sparse. Use X.toarray().")
    if hasattr(values, "detach"):
        tensor = values.detach().cpu()
        # numpy has no bfloat16.
        values = tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor
    if np.ma.is_masked(values):
        raise DataError("X has masked values. Fill them, or remove their rows.")
    return np.asarray(values)


def _split(array: NDArray[Any], names: Sequence[str | None], name: str) -> Split:
    if array.ndim == 0 or array.size == 0:
        raise DataError("D02: X is empty; there is nothing to sort.")
    labels, class_names = index_names(names)
    is_images = array.ndim == 4 or (array.ndim == 3 and array.dtype == np.uint8)
    images = ImageArrays(array) if is_images else None
    features_nvd = None if is_images else _features(array)
    hashes = [_hash(row) for row in (array if features_nvd is None else features_nvd)]
    return Split(
        name=name,
        images=images,
        features_nvd=features_nvd,
        labels=labels,
        class_names=class_names,
        table=image_table([f"row-{index:06d}" for index in range(len(array))], hashes),
    )


def is_array_file(path: Path) -> bool:
    """Return whether a path leads to an `.npz` file, by its name."""
    return path.is_file() and path.suffix.lower() == ".npz"


def _read(path: Path, *, use_labels: bool) -> tuple[NDArray[np.generic], NDArray[np.generic] | None]:
    if not path.is_file():
        raise no_such_path(path, expected="file", is_wanted=is_array_file)
    try:
        # Pickled arrays can run code when loaded, so they are refused.
        with np.load(path, allow_pickle=False) as arrays:
            names = list(arrays)
            wanted = {name: arrays[name] for name in ("X", "y") if name in names and (use_labels or name == "X")}
    except (ValueError, OSError, EOFError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise DataError(
            f"D17: '{path}' cannot be read as .npz of plain arrays ({error}). "
            f"Write it with numpy.savez(path, X=X, y=y), with labels as numbers or text, not as Python objects."
        ) from None
    if "X" not in wanted:
        raise DataError(f"D17: array 'X' not found in '{path}' (found: {', '.join(names)}).")
    if use_labels and "y" not in names and (others := [name for name in names if name != "X"]):
        warn(f"D05: array 'y' not found in '{path}', so nothing is labelled (found: {', '.join(others)}).")
    return wanted["X"], wanted.get("y")


def _features(array: NDArray[np.generic]) -> NDArray[np.float32]:
    if array.ndim not in (2, 3) or array.dtype.kind not in "fiub":
        raise DataError(
            f"X must be (n, d) or (n, views, d) features, or uint8 images, got {array.dtype} of shape {array.shape}."
        )
    if array.ndim == 3 and array.shape[1] == array.shape[2] > 1:
        text = f"X of shape {array.shape} is read as {array.shape[1]} views of features. Give images as uint8."
        warn(text)
    is_bad = ~np.isfinite(array).reshape(len(array), -1).all(1)
    if is_bad.any():
        raise DataError(
            f"X has NaN or infinity in {is_bad.sum():,} rows, first row {int(is_bad.argmax())}. Remove or fill them."
        )
    with np.errstate(over="ignore"):  # reported next
        features_nvd = np.ascontiguousarray(array.reshape(len(array), -1, array.shape[-1]), dtype=np.float32)
    _check_squares(array, features_nvd)
    return features_nvd


def _check_squares(array: NDArray[np.generic], features_nvd: NDArray[np.float32]) -> None:
    """Raise `DataError` where features are too large to be brought to length 1: they would all become 0."""
    is_too_large = ~np.isfinite(np.einsum("nvd,nvd->nv", features_nvd, features_nvd)).all(1)
    if is_too_large.any():
        rows = f"{is_too_large.sum():,} rows, first row {int(is_too_large.argmax())}"
        most = float(np.abs(array[is_too_large]).max())
        raise DataError(f"X has values up to {most:.1g} in {rows}, which overflow when squared; rescale them.")


def _hash(row: NDArray[np.generic]) -> str:
    return hashlib.sha256(repr((row.dtype.str, row.shape)).encode() + np.ascontiguousarray(row).tobytes()).hexdigest()


def _label_names(y: ArrayLike | None, *, n_items: int) -> list[str | None]:
    """Return the name of each label, None where there is none."""
    if y is None:
        return [None] * n_items
    values = _objects(y)
    if values.shape != (n_items,):
        raise DataError(f"y must hold one label per row of X: expected shape ({n_items},), got {values.shape}.")
    return [_label_name(value) for value in values.tolist()]


def _objects(y: ArrayLike) -> NDArray[np.object_]:
    if isinstance(y, np.ma.MaskedArray):
        # Masked values count as unlabelled; plain numpy would show them.
        values = y.data.astype(object)
        values[np.ma.getmaskarray(y)] = None
        return values
    return np.asarray(y, dtype=object)


def _label_name(value: object) -> str | None:
    if isinstance(value, bytes):
        # HDF5 and numpy's dtype S bring text so. What is no UTF-8 is spelt out, so that two names stay two.
        value = value.decode(errors="backslashreplace")
    if isinstance(value, str):
        return _text_name(value)
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    return _number_name(value) if isinstance(value, Real) else str(value)


def _text_name(text: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DataError(f"y holds {text!r}, which cannot be written as UTF-8. Use another name.") from None
    return None if text.strip() in ("", "-1") else text


def _number_name(number: Any) -> str | None:  # noqa: ANN401 (a number of Python's or of numpy's)
    if number != number or number == -1:
        return None
    if number < 0 or number == math.inf:
        raise DataError(f"y holds {number}. Give labels as names or numbers from 0, and -1 for unlabelled.")
    # Integer labels with gaps arrive as floats: NaN for the gaps, 3.0 for 3.
    is_whole = isinstance(number, float | np.floating) and float(number).is_integer()
    return str(int(number) if is_whole else number)
