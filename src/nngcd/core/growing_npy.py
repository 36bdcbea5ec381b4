"""A `.npy` file that is written row by row, however many there will be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray


class GrowingNpy:
    """A `.npy` matrix of rows of one length; its header says how many there are once it is closed."""

    def __init__(self, path: Path, n_columns: int, dtype: DTypeLike) -> None:
        self._file, self._n_rows, self._n_columns = path.open("w+b"), 0, n_columns
        self._dtype = np.dtype(dtype)
        self._write_header()

    def add(self, rows_nd: NDArray[Any]) -> None:
        """Append rows."""
        self._file.write(np.ascontiguousarray(rows_nd, dtype=self._dtype).data)
        self._n_rows += len(rows_nd)

    def close(self) -> None:
        """Write how many rows there are."""
        try:
            self._file.seek(0)
            # numpy keeps room in a header for the number of rows to grow.
            self._write_header()
        finally:
            self._file.close()

    def _write_header(self) -> None:
        shape = (self._n_rows, self._n_columns)
        facts = {"descr": npy.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(self._file, facts)
