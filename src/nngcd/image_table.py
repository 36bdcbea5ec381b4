"""`ImageTable`: images and their labels from somewhere, to be checked and sorted."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from nngcd.core.config import build
from nngcd.datasets import open_dataset
from nngcd.datasets.arrays import from_arrays
from nngcd.datasets.checking import Report, check_data, check_split
from nngcd.datasets.reading import Config
from nngcd.datasets.split import Split
from nngcd.effort_times import with_times


class ImageTable:
    """Images, or features of images, and the labels of some of them.

    Make one with `from_folder`, `from_csv`, `from_parquet` or `from_arrays`. Files are read when they are first needed,
    once, and never changed. Give it to `CategoryDiscovery.fit`.

    Example:
        >>> import numpy as np
        >>> from nngcd import ImageTable
        >>> table = ImageTable.from_arrays(np.zeros((3, 4)), ["owl", "", ""])
        >>> len(table), table.n_labelled
        (3, 1)
    """

    def __init__(self, data: str, reading: Config | None, split: Split | None = None) -> None:
        self._data, self._reading = data, reading
        self._report: Report | None = None
        if split is not None:
            self.split = split

    @classmethod
    def from_folder(cls, folder: str | Path, **reading: Any) -> ImageTable:  # noqa: ANN401 (settings of any type)
        """Return the images of a folder; sub-folders are known categories, loose images and `_unlabelled/` are not.

        Args:
            folder: the folder.
            **reading: settings of reading, for example `unlabelled_names=["unknown"]` or `labels="labels.csv"`.
        """
        return cls(str(folder), build(Config, reading))

    @classmethod
    def from_csv(cls, path: str | Path, **reading: Any) -> ImageTable:  # noqa: ANN401 (settings of any type)
        """Return the images a CSV table lists: `file_name,label`, the label empty where there is none.

        Args:
            path: the table.
            **reading: settings of reading, for example `image_root="images"` or `columns=["label=species"]`.
        """
        return cls(str(path), build(Config, reading))

    @classmethod
    def from_parquet(cls, path: str | Path, **reading: Any) -> ImageTable:  # noqa: ANN401 (settings of any type)
        """Return the images a Parquet table lists; as `from_csv`."""
        return cls.from_csv(path, **reading)

    @classmethod
    def from_arrays(cls, X: ArrayLike, y: ArrayLike | None = None) -> ImageTable:  # noqa: N803 (as scikit-learn)
        """Return features (n, d) or uint8 images (n, h, w[, 3]) with labels; -1, None, NaN or "" means unlabelled."""
        return cls("arrays", None, from_arrays(X, y))

    @cached_property
    def split(self) -> Split:
        """What training gets to see.

        Raises:
            DataError: the data cannot be used as they are; `check` says all that is wrong with them.
        """
        if self._report is not None and self._report.split is not None:
            return self._report.split
        return open_dataset(self._data, reading=self._reading)[0]

    def check(self, *, times: bool = False) -> Report:
        """Return what `nngcd check` says, as an object: print it, or look at `.problems` and `.duplicates`.

        Args:
            times: whether to measure how long a fit would take, which takes some seconds.
        """
        if self._report is None:
            is_in_memory = self._reading is None
            self._report = (
                check_split(self.split, self._data) if is_in_memory else check_data(self._data, reading=self._reading)
            )
        return with_times(self._report) if times else self._report

    def to_frame(self) -> pd.DataFrame:
        """Return one row per usable image: file_name, label (missing where there is none), image_id."""
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
