"""`ImageTable`: images and their labels, ready to check and sort."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from nngcd.checking.check import CheckReport, check_data, check_split
from nngcd.checking.effort_times import with_times
from nngcd.core.config import build
from nngcd.data.reading_settings import ReadingSettings
from nngcd.data.split import Split
from nngcd.datasets.arrays import from_arrays
from nngcd.datasets.opening import open_dataset


class ImageTable:
    """Images, or features of images, with labels for some of them.

    Create one with `from_folder`, `from_csv`, `from_parquet` or `from_arrays`, and pass it to `CategoryDiscovery.fit`.
    Files are read once, when they are first needed, and never changed.

    Examples:
        >>> import numpy as np
        >>> from nngcd import ImageTable
        >>> table = ImageTable.from_arrays(np.zeros((3, 4)), ["owl", "", ""])
        >>> len(table), table.n_labelled
        (3, 1)
    """

    def __init__(self, data: str, reading: ReadingSettings | None, split: Split | None = None) -> None:
        self._data, self._reading = data, reading
        self._report: CheckReport | None = None
        if split is not None:
            self.split = split

    @classmethod
    def from_folder(cls, folder: str | Path, **reading: Any) -> ImageTable:  # noqa: ANN401 (settings of any type)
        """Return the images of a folder: sub-folders are known categories; other images have no label.

        Args:
            folder: the folder.
            **reading: reading settings, for example `unlabelled_names=["unknown"]` or `labels="labels.csv"`.
        """
        return cls(str(folder), build(ReadingSettings, reading))

    @classmethod
    def from_csv(cls, path: str | Path, **reading: Any) -> ImageTable:  # noqa: ANN401 (settings of any type)
        """Return the images listed in a CSV table with columns `file_name,label`; an empty label means unlabelled.

        Args:
            path: the table.
            **reading: reading settings, for example `image_root="images"` or `columns=["label=species"]`.
        """
        return cls(str(path), build(ReadingSettings, reading))

    @classmethod
    def from_parquet(cls, path: str | Path, **reading: Any) -> ImageTable:  # noqa: ANN401 (settings of any type)
        """Return the images listed in a Parquet table, as `from_csv` does."""
        return cls.from_csv(path, **reading)

    @classmethod
    def from_arrays(cls, X: ArrayLike, y: ArrayLike | None = None) -> ImageTable:  # noqa: N803 (as scikit-learn)
        """Return features (n, d) or uint8 images (n, h, w[, 3]) with labels; -1, None, NaN or "" means unlabelled."""
        return cls("arrays", None, from_arrays(X, y))

    @cached_property
    def split(self) -> Split:
        """The data that training sees.

        Raises:
            DataError: the data cannot be used as they are; `check` lists every problem.
        """
        if self._report is not None and self._report.split is not None:
            return self._report.split
        return open_dataset(self._data, reading=self._reading)[0]

    def check(self, *, times: bool = False) -> CheckReport:
        """Return the report of `nngcd check`: print it, or look at `.problems` and `.duplicates`.

        Args:
            times: whether to estimate how long a fit will take; this takes a few seconds.
        """
        if self._report is None:
            is_in_memory = self._reading is None
            self._report = (
                check_split(self.split, self._data) if is_in_memory else check_data(self._data, reading=self._reading)
            )
        return with_times(self._report) if times else self._report

    def to_frame(self) -> pd.DataFrame:
        """Return one row per usable image: file_name, label (missing if unlabelled), image_id."""
        names = np.array([*self.split.class_names, None], dtype=object)
        labels = pd.Series(names[self.split.labels], dtype="string")
        return pd.DataFrame(
            {"file_name": self.split.table["file_name"], "label": labels, "image_id": self.split.table["image_id"]}
        )

    @property
    def n_labelled(self) -> int:
        """The number of labelled images."""
        return self.split.n_labelled

    def __len__(self) -> int:
        return len(self.split)

    def __repr__(self) -> str:
        return f"ImageTable({self._data!r})"
