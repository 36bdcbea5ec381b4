"""`Run`: everything you can do with a finished run, from Python."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from nngcd.core.config import build
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder
from nngcd.export.exporting import exported
from nngcd.export.source import Options
from nngcd.report import MAX_IMAGES, read_findings, write_report
from nngcd.review.edit_block import EditBlock
from nngcd.review.reviewed import reviewed_results
from nngcd.runs.evaluation import evaluate


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run; `Run.open("runs/trees")` opens an existing one.

    All results include the edits made in the review of the run.
    """

    folder: RunFolder

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """Open the run in a folder.

        Raises:
            DataError: it is not a run folder, or the run is not finished.
        """
        folder = RunFolder.open(Path(path))
        folder.check_complete()
        return cls(folder)

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.folder.path

    @property
    def results(self) -> pd.DataFrame:
        """One row per image: category, known, new or unsure, confidence, novelty, alternatives."""
        return reviewed_results(self.folder).table

    @property
    def categories(self) -> pd.DataFrame:
        """One row per category."""
        return reviewed_results(self.folder).categories

    @property
    def summary(self) -> dict[str, Any]:
        """The final numbers, with the protocol of the scores."""
        return self.folder.read_summary()

    def edit(self, *, user: str | None = None) -> EditBlock:
        """Correct the categories in a block, `with run.edit() as e:`; every edit is logged and can be undone."""
        return EditBlock(self.folder, user=user)

    def report(
        self, path: str | Path | None = None, *, max_images: int = MAX_IMAGES, progress: Progress | None = None
    ) -> Path:
        """Write the report page of the run (report.html in its folder, or `path`) and return its path.

        Raises:
            UserError: the path does not end in .html, `max_images` is negative, or the page cannot be written.
        """
        place = self.folder.report if path is None else Path(path)
        return write_report(read_findings(self.folder), place, max_images=max_images, progress=progress).path

    def export(
        self,
        to: str = "csv",
        out: str | Path = "export",
        *,
        progress: Progress | None = None,
        **options: Any,  # noqa: ANN401
    ) -> list[Path]:
        """Export the results for other programs, as `nngcd export` does, and return the files.

        Args:
            to: formats, separated by commas: csv, parquet, folders, coco, labelstudio, hf, onnx.
            out: the folder to write into.
            progress: receives the stages of the work.
            options: `link`, `csv`, `root` and `skip_missing`, as the flags of `nngcd export`.

        Raises:
            UserError: a format or option does not exist, or a file cannot be written.
        """
        written = exported(self.folder, to, Path(out), build(Options, options), progress=progress or Progress())
        return [one.path for one in written]

    def evaluate(self, truth: str | Path | None = None) -> dict[str, Any]:
        """Return the scores of the run.

        Args:
            truth: a table with the true labels (file_name, label); by default those of the data set.

        Raises:
            DataError: the true labels are not known.
        """
        return evaluate(self.folder, None if truth is None else Path(truth))
