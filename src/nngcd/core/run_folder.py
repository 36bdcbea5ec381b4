"""The run folder: the only thing a run writes; self-describing, movable, and locked while a run is at work."""

from __future__ import annotations

import json
import logging
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nngcd.core.atomic import cannot_write, is_temporary, remove_leftovers, writing
from nngcd.core.errors import ConfigError, DataError, NoSuchDataError, ResourceError, did_you_mean_path
from nngcd.core.files import write_text
from nngcd.core.run_schemas import Epoch, StoredSummary
from nngcd.core.verified_files import parse_json, read_content, read_json
from nngcd.core.words import argument, count

README = """This folder holds one run of nngcd (category discovery). It can be moved, copied or zipped.

results.csv        one row per image: its category, whether it is known or new, and the confidence
results.parquet    the same, with column types
categories.csv     one row per category
moves.csv          the images that splits and merges moved to another cluster (if any)
summary.json       the final numbers, with the protocol of the scores
k.json, k.svg      the number of categories: estimate, interval, curve (if it was estimated)
metrics.jsonl      one line per training epoch
config.yaml        every setting; `nngcd fit --config config.yaml` repeats the run
environment.json   versions, device, command line, times
digests.json       the sha256 of the files in this folder; `nngcd doctor {run}` verifies them
assigned/          the category of every image, if the run was trained on a sample of them (a folder of Parquet parts)
data/              the images that were used (manifest.parquet), the labels given and which were held back (split.csv)
log.txt            a log of the run
problems.csv       files that were not used, and why
features.safetensors  the learned feature of every image
model/             the trained model, for `nngcd predict`
figures/           figures drawn by `nngcd figures`
report.html        the results in pictures; opens in any browser
review/            the edits a person made (edits.jsonl)
checkpoints/       state for `nngcd fit --resume` (removed when the run is complete)

Next, from the parent folder (NEW_DATA: images, or features if the run was made from features):
  nngcd predict {run} NEW_DATA --out new.csv
  nngcd evaluate {run} --truth TRUE_LABELS.csv
  nngcd report {run}
  nngcd review {run}
  nngcd export {run} --to csv --out labels
  nngcd figures {run}
  nngcd fit --resume {run}        (only if it was interrupted)
and for a run on images:
  nngcd export {run} --to folders --out sorted
"""


def new_folder(path: Path, *, may_rename: bool = True) -> Path:
    """Return a new empty folder; when the name is taken, `-2`, `-3`, … is added, never anything overwritten.

    Raises:
        ResourceError: the folder cannot be made, or its name is taken and must not be changed.
    """
    if path.name in ("", ".."):
        raise ConfigError("--out", str(path), "is an existing folder; name a new one, for example runs/first")
    if not may_rename and is_empty(path):  # left by a process that was killed right after it had made it
        shutil.rmtree(path, ignore_errors=True)
    candidate, n = path, 1
    while True:
        try:
            candidate.mkdir(parents=True)
            return candidate
        except FileExistsError:
            if not may_rename:
                raise ResourceError(
                    f"{path} is in use by another process that has just created it. Choose another --out."
                ) from None
            n += 1
            candidate = path.with_name(f"{path.name}-{n}")
        except OSError as error:
            raise ResourceError(f"R01: cannot create {candidate}: {error.strerror}. Choose another --out.") from None


def is_empty(path: Path) -> bool:
    """Return whether a path is a folder that holds nothing, or nothing but what a killed process left half-written."""
    return path.is_dir() and all(map(is_temporary, path.iterdir()))


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where one run keeps everything; the properties name its files."""

    path: Path

    @classmethod
    def create(cls, path: Path, *, may_rename: bool = True) -> RunFolder:
        """Return the folder of a new run (see `new_folder`)."""
        folder = new_folder(path, may_rename=may_rename)
        write_text(folder / "README.txt", README.format(run=argument(folder.name)))
        return cls(folder)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Return an existing run folder.

        Raises:
            NoSuchDataError: the folder is not there.
            DataError: it is not a run folder.
        """
        if path.is_dir() and not cls(path).config.is_file():
            raise DataError(f"{path} has no config.yaml, so it is not a run folder. {_runs_inside(path)}")
        if not path.is_dir():
            what = "is not a folder" if path.exists() else "does not exist"
            hint = did_you_mean_path(path, lambda beside: cls(beside).config.is_file())
            raise NoSuchDataError(f"{path} {what}.{hint} `nngcd fit` prints the folder it writes.")
        return cls(path)

    config = property(lambda self: self.path / "config.yaml")
    k = property(lambda self: self.path / "k.json")
    environment = property(lambda self: self.path / "environment.json")
    manifest = property(lambda self: self.path / "data" / "manifest.parquet")
    split = property(lambda self: self.path / "data" / "split.csv")
    problems = property(lambda self: self.path / "problems.csv")
    features = property(lambda self: self.path / "features.safetensors")
    results = property(lambda self: self.path / "results.parquet")
    results_csv = property(lambda self: self.path / "results.csv")
    categories = property(lambda self: self.path / "categories.csv")
    moves = property(lambda self: self.path / "moves.csv")
    metrics = property(lambda self: self.path / "metrics.jsonl")
    summary = property(lambda self: self.path / "summary.json")
    model = property(lambda self: self.path / "model")
    checkpoint = property(lambda self: self.path / "checkpoints" / "last.safetensors")
    figures = property(lambda self: self.path / "figures")
    report = property(lambda self: self.path / "report.html")
    edits = property(lambda self: self.path / "review" / "edits.jsonl")
    log = property(lambda self: self.path / "log.txt")
    assigned = property(lambda self: self.path / "assigned")

    @property
    def is_complete(self) -> bool:
        """Whether the run has finished: the summary is the last file written."""
        return (self.path / "summary.json").is_file()

    def check_complete(self) -> None:
        """Raise `DataError` unless the run has finished."""
        if not self.is_complete:
            raise self.not_finished()

    def not_finished(self) -> DataError:
        """Return the error for whoever needs what this run has not written yet."""
        return DataError(f"{self.path} is not finished. Finish it first: nngcd fit --resume {argument(self.path)}")

    def read_summary(self) -> dict[str, Any]:
        """Return the final numbers of a finished run."""
        return read_json(self.summary, StoredSummary)

    def append_metrics(self, values: Mapping[str, Any]) -> None:
        """Add one line to metrics.jsonl."""
        with writing(self.metrics), self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(dict(values)) + "\n")

    def remove_litter(self) -> None:
        """Remove what is of no more use: temporary files of killed processes, and the state for resuming at the end."""
        remove_leftovers(self.path)
        if self.is_complete:
            shutil.rmtree(self.checkpoint.parent, ignore_errors=True)

    def read_metrics(self) -> list[dict[str, Any]]:
        """Return the lines of metrics.jsonl; a last line cut off by a crash is left out."""
        if not self.metrics.is_file():
            return []
        way_out = "Delete this file; only the training curves are lost"
        lines = read_content(self.metrics, way_out=way_out).split(b"\n")
        return [
            parse_json(line, Epoch, self.metrics, where=f"line {number}: ", way_out=way_out)
            for number, line in enumerate(lines[:-1], 1)
            if line
        ]

    def forget_metrics_from(self, epoch: int) -> None:
        """Drop the lines of `epoch` and later: a crash can come between a line and its checkpoint."""
        kept = [line for line in self.read_metrics() if line["epoch"] < epoch]
        write_text(self.metrics, "".join(json.dumps(line) + "\n" for line in kept))

    @contextmanager
    def logged(self) -> Iterator[None]:
        """Write what the library logs into log.txt, added to what earlier parts of the run left there."""
        with writing(self.log):
            handler = _LogFile(self.log, encoding="utf-8")
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logger = logging.getLogger("nngcd")
        logger.addHandler(handler)
        level = logger.level
        logger.setLevel(logging.INFO)
        try:
            yield
        except BaseException:
            # What stopped the run is said, not that a full disk takes no line about it.
            with suppress(ResourceError):
                logger.exception("the run stopped")
            raise
        finally:
            logger.setLevel(level)
            logger.removeHandler(handler)
            with suppress(OSError):
                handler.close()


class _LogFile(logging.FileHandler):
    """A log file whose failures end the run, as those of all other files do."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's name)
        """Raise `ResourceError` when the line could not be written."""
        _, error, _ = sys.exc_info()
        if isinstance(error, OSError):
            raise cannot_write(self.baseFilename, error) from error
        super().handleError(record)


def _runs_inside(path: Path) -> str:
    """Return where to look instead: a benchmark's folder holds its runs."""
    runs = sorted(below.parent for below in path.glob("*/config.yaml"))
    if not runs:
        return "`nngcd fit` prints the folder it writes."
    return f"It holds {count(len(runs), 'run')}: name one, such as {argument(runs[0])}, or all: {argument(path)}/*"
