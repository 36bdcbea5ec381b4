"""The labels of arrays, of whatever kind: numbers, text or bytes, with gaps as numpy, pandas and Python write them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from nngcd.core.errors import DataError
from nngcd.data.findings import unclear
from nngcd.data.labels import unclear_names


def label_names(y: ArrayLike | None, *, n_items: int) -> list[str | None]:
    """Return the name of each label, None where there is none.

    Raises:
        DataError: there is not one label per item, or a label is below -1, infinite or no text.
    """
    if y is None:
        return [None] * n_items
    values = _objects(y)
    if values.shape != (n_items,):
        raise DataError(f"y must hold one label per row of X: expected shape ({n_items},), got {values.shape}.")
    return [_label_name(value) for value in values.tolist()]


def refuse_unclear(names: Sequence[str | None]) -> None:
    """Raise `DataError` where nobody can tell whether a label names a category, such as text made of NaN or None."""
    for name, count in unclear_names(names).items():
        raise DataError(str(unclear(name, count, in_array=True)))


def _objects(y: ArrayLike) -> NDArray[np.object_]:
    if isinstance(y, np.ma.MaskedArray):
        # What a mask hides is no label; plain numpy would show it.
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
