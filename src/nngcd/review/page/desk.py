"""A run on the desk of a reviewer: its review, kept in step with the log, and who may edit it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock, RLock
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from nngcd.core.errors import ResourceError, UserError
from nngcd.core.locks import HOLDER, hold, holder_of
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_config, read_features
from nngcd.review.page.alike import usual_gain
from nngcd.review.page.index import Index
from nngcd.review.page.unit_features import UnitFeatures
from nngcd.review.session import Review

LOCK_FOLDER = "page"
"""Below RUN/review: its lock is held by the one page that may edit. The log has a lock of its own, held for moments."""


class GoneError(UserError):
    """The run folder was deleted or moved while the page was open."""


class ReadOnlyError(UserError):
    """This page may not edit."""


class StaleError(UserError):
    """The edit was made on an older version of the review than there is now."""


class Desk:
    """A review that is open on a page, for edits unless `why_read_only` says why not; all requests hold `lock`."""

    def __init__(self, run: RunFolder, *, why_read_only: str = "", user: str | None = None) -> None:
        self.run, self.why_read_only, self.lock = run, why_read_only, RLock()
        self._user = user
        self.settings = read_config(run)
        self.review = Review(run, user=user)
        pa.default_memory_pool().release_unused()  # what reading the table took: 50 MB for a million images
        self._usual_gain: float | None = None
        self._usual_lock = Lock()
        self._features = UnitFeatures(read_features(run, len(self.review.results)))
        self._look({})

    def _look(self, numbers: Mapping[str, int]) -> None:
        results = self.review.results
        self.index = Index(self._features, self.review.state, numbers)
        self.confidence_n: NDArray[np.float64] = results["confidence"].to_numpy(dtype=np.float64)
        self.is_labelled_n: NDArray[np.bool_] = results["label_given"].notna().to_numpy(dtype=bool)
        # Plain lists: one value of a column of a table takes many times as long.
        self.file_names: list[str] = results["file_name"].tolist()
        self.labels_given: list[str | None] = (
            results["label_given"].astype(object).where(self.is_labelled_n, None).tolist()
        )
        self.is_unsure_n: NDArray[np.bool_] = (results["status"] == "unsure").to_numpy(dtype=bool)
        self.remembered: dict[str, tuple[int, Any]] = {}

    @property
    def version(self) -> int:
        """Number of lines in the log: every edit, undo and redo makes a new version."""
        return len(self.review.log.edits)

    def refresh(self) -> None:
        """Read the log again where another program has added to it.

        Raises:
            GoneError: the run folder is gone.
        """
        if not self.run.config.is_file():
            raise GoneError(f"{self.run.path} is gone. Put the folder back, or stop this page.")
        if not self.review.log.is_current:
            self.review = Review(self.run, user=self._user)
            self._look(self.index.numbers)

    @contextmanager
    def editing(self, version: int) -> Iterator[Review]:
        """Give the review for edits that were made on a version of it; the arrays follow what they change.

        Raises:
            ReadOnlyError: this page may not edit.
            StaleError: the review has another version by now.
        """
        if self.why_read_only:
            raise ReadOnlyError(self.why_read_only)
        self.refresh()
        if version != self.version:
            raise StaleError(
                "The review was changed in another window. This one is now up to date; repeat your last step."
            )
        try:
            yield self.review
        finally:
            for edit in self.review.log.edits[version:]:
                self.index.follow(edit.before.images, self.review.state)

    def is_reviewed(self) -> NDArray[np.bool_]:
        """Return (n,) whether a person has decided about each image, or approved its category."""
        live = self.review.state.live
        is_approved_k = [id_ in live and live[id_].is_approved for id_ in self.index.numbers]
        # Images in no category have the number -1: the last.
        reviewed: NDArray[np.bool_] = self.index.is_decided_n | np.array([*is_approved_k, False])[self.index.category_n]
        return reviewed

    def usual_gain(self) -> float:
        """Return what cutting a typical known category in two gains, as the run left it; 0 where that is not known.

        Called without `lock`, since the first call takes a moment.
        """
        with self._usual_lock:
            if self._usual_gain is None:
                self._usual_gain = usual_gain(self._features, self.review.first, self.is_labelled_n)
            return self._usual_gain

    def undecided(self) -> pd.DataFrame:
        """Return results with present categories: of the images that no person has put where they are."""
        rows = np.flatnonzero((self.index.category_n >= 0) & ~self.index.is_decided_n)
        category = pd.Categorical.from_codes(self.index.category_n[rows], categories=pd.Index([*self.index.numbers]))
        label_given = np.array(self.labels_given, dtype=object)[rows]
        image_id = np.array(self.index.ids, dtype=object)[rows]
        columns = {"image_id": image_id, "category": category, "confidence": self.confidence_n[rows]}
        return pd.DataFrame({**columns, "label_given": label_given})


@contextmanager
def seat(run: RunFolder, *, is_read_only: bool) -> Iterator[str]:
    """Take the one place from which a run may be edited; give why it cannot be had, or an empty text.

    The place is free again when the block or the process ends.
    """
    if is_read_only:
        yield "This page is read-only (--read-only)."
        return
    folder: Path = run.edits.parent / LOCK_FOLDER
    with ExitStack() as held:
        yield _take(folder, held)


def _take(folder: Path, held: ExitStack) -> str:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held.enter_context(hold(folder))
    except OSError as error:
        return f"{folder} cannot be written ({error.strerror}), so this page is read-only."
    except ResourceError as error:
        if not (folder / HOLDER).is_file():
            return f"{error} This page is read-only."
        return (
            f"This run is already being reviewed by {holder_of(folder)}, so this page is read-only. "
            "To edit here, stop the other one and start again."
        )
    return ""
