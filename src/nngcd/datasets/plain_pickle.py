"""Pickles of plain data: numbers, text, lists, dictionaries and numpy arrays, and nothing that could run code."""

from __future__ import annotations

import pickle
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from nngcd.core.errors import DataError

# The three names an array needs. numpy 2 renamed the module of the first, but an array knows how to rebuild itself.
_REBUILD = np.empty(0).__reduce__()[0]
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _REBUILD,
    ("numpy._core.multiarray", "_reconstruct"): _REBUILD,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
}


def read_plain_pickle(path: Path) -> dict[str, Any]:
    """Return the dictionary in a pickle, its keys as text, also when Python 2 wrote it.

    Raises:
        DataError: the file is not a pickle of a dictionary, is cut short, or asks for anything but plain data.
    """
    try:
        # Python 2 had one type for bytes and text; latin1 keeps both as they are, and arrays need it.
        content = _PlainUnpickler(BytesIO(path.read_bytes()), encoding="latin1").load()
    except DataError as error:
        raise DataError(f"D17: '{path}' is refused: {error} Use the file of the official archive.") from None
    except OSError as error:
        raise DataError(f"D17: cannot open '{path}' ({error.strerror or error}).") from None
    except Exception as error:  # on broken data pickle raises nearly anything
        text = f"D17: '{path}' cannot be read as a pickle ({error}). Unpack the archive again."
        raise DataError(text) from error
    if not isinstance(content, dict):
        raise DataError(f"D17: '{path}' holds a {type(content).__name__}, not a dictionary.")
    return {key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in content.items()}


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:  # noqa: ANN401 (as in the base class)
        # A pickle names what is to be called; loading one of unknown origin can otherwise do anything to this machine.
        try:
            return _ALLOWED[module_name, global_name]
        except KeyError:
            raise DataError(f"it asks for '{module_name}.{global_name}', which image data do not need.") from None
