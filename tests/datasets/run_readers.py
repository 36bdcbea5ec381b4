"""Two small runs, one finished and one interrupted, and everything that reads their files, for fuzzing."""

from __future__ import annotations

import dataclasses
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from run_mutations import mutated

from nngcd.cli import words
from nngcd.core.errors import UserError
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_config
from nngcd.datasets.arrays import from_arrays
from nngcd.pipeline import discover
from nngcd.report import read_findings, write_report
from nngcd.research.comparison import rows_of
from nngcd.research.drawing import Subject
from nngcd.review.reviewed import decisions, reviewed_results, undecided
from nngcd.review.session import Review
from nngcd.runs.evaluation import evaluate
from nngcd.runs.prediction import Sorter, predict_with, reading_of
from nngcd.runs.preparing import prepare
from nngcd.runs.soundness import check_run
from nngcd.settings import Settings, flat_settings, resolve
from nngcd.training.init_from import Start


class Fuzzed:
    """The runs, and the readers of each of their files.

    Args:
        root: an empty folder.
    """

    def __init__(self, root: Path) -> None:
        rng = np.random.default_rng(0)
        classes = np.repeat(np.arange(6), 14)
        features = rng.normal(size=(6, 8))[classes] * 3 + rng.normal(size=(84, 8)) * 0.3
        self.split = from_arrays(
            features.astype(np.float32), np.where((classes < 3) & (np.arange(84) % 2 == 0), classes, -1)
        )
        np.savez(root / "data.npz", X=self.split.features_nvd[:, 0], y=self.split.labels)
        (root / "truth.csv").write_text("file_name,label\nrow-000001,0\nrow-000050,4\n")
        self.root, self.truth = root, root / "truth.csv"
        self.done, self.begun = RunFolder.create(root / "done"), RunFolder.create(root / "begun")
        self.settings = self._settings("4..8")
        discover(prepare(self.split, self.settings), None, self.done, cache=None, progress=Progress())
        try:
            discover(prepare(self.split, self.settings), None, self.begun, cache=None, progress=_Stop())
        except KeyboardInterrupt:
            pass
        review = Review(self.done, user="ana")
        new = [id_ for id_, category in review.state.live.items() if category.kind == "new"]
        review.rename(new[0], "owl")
        review.split(new[1])
        review.undo()
        self.whole = {run: _content(run) for run in (self.done, self.begun)}
        self.files = [
            (run, name) for run, content in self.whole.items() for name in content if name in self.readers(run)
        ]

    def _settings(self, k: str) -> Settings:
        small = {"n_hidden": 8, "n_projection": 4}
        return resolve({"data": str(self.root / "data.npz"), "method": "simgcd", "k": k, "device": "cpu", "loss": small,
                        "training": {"epochs": 3, "batch_size": 32}})  # fmt: skip

    def readers(self, run: RunFolder) -> dict[str, list[Callable[[], object]]]:
        """Return what reads each file of a run."""
        if run is self.begun:
            names = ("environment.json", "data/split.csv", "k.json", "metrics.jsonl", "digests.json",
                     "checkpoints/last.safetensors")  # fmt: skip
            return {name: [self.resume] for name in names} | {"config.yaml": [lambda: resolve(read_config(run))]}
        table = [self.report, self.figures, self.review, lambda: evaluate(run, self.truth)]
        return {
            "summary.json": [self.say, self.report, self.figures],
            "environment.json": [self.report],
            "k.json": [self.report],
            "metrics.jsonl": [self.report],
            "problems.csv": [self.report],
            "config.yaml": [self.report, lambda: reading_of(run), lambda: evaluate(run, self.truth), self.figures],
            "results.parquet": table,
            "data/manifest.parquet": [lambda: list(check_run(run))],
            "data/split.csv": [lambda: Start.of(run)],
            "features.safetensors": [self.report, self.figures, lambda: Review(run).propose_split("new-001")],
            "model/model.safetensors": [self.predict],
            "model/config.json": [self.predict],
            "model/categories.json": [self.predict, *table],
            "model/confidence.json": [self.predict],
            "model/preprocessor.json": [lambda: list(check_run(run))],
            "review/edits.jsonl": [self.review, self.report],
            "digests.json": [lambda: list(check_run(run)), self.predict],
        }

    def try_one(self, rng: np.random.Generator) -> str:
        """Damage one file, read it and put it back; return `refused`, `fine`, or what went wrong."""
        run, name = self.files[int(rng.integers(len(self.files)))]
        path, before = run.path / name, self.whole[run][name]
        path.write_bytes(mutated(name, before, rng))
        if name != "digests.json" and rng.random() < 0.7:
            (run.path / "digests.json").unlink(missing_ok=True)  # as a stranger would
        outcome = "fine"
        for read in self.readers(run)[name]:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    read()
            except UserError as error:
                outcome = "refused"
                assert str(error)
        self.restore()
        return outcome

    def restore(self) -> None:
        """Put every file back as it was."""
        for run, content in self.whole.items():
            for name, before in content.items():
                (run.path / name).write_bytes(before)

    def report(self) -> None:
        """Write the page."""
        write_report(read_findings(self.done), self.root / "page.html")

    def say(self) -> None:
        """Say the result, and compare it with itself."""
        summary = self.done.read_summary()
        for line in (words.found_words, words.held_back_words, words.label_error_words):
            line(summary)
        if "scores" in summary:
            words.score_words(summary["scores"])
        rows_of([self.done.read_summary()], [flat_settings(self.settings)])

    def figures(self) -> None:
        """Gather what figures need."""
        subject = Subject(self.done, _NoData(), "ours", ())
        assert subject.facts
        assert len(subject.features_nd) == len(subject.grouping.class_n)

    def review(self) -> None:
        """Follow the edits."""
        reviewed = reviewed_results(self.done)
        decisions(reviewed)
        undecided(reviewed)

    def predict(self) -> None:
        """Label the images; no confidence that is written is anything but a number."""
        sorter = Sorter.load(self.done, device="cpu")
        table = predict_with(dataclasses.replace(sorter, workers=0), self.split)
        assert np.isfinite(table["confidence"].to_numpy(dtype=float)).all()

    def resume(self) -> None:
        """Go on with a copy of the interrupted run."""
        copy = RunFolder(self.root / "copy")
        shutil.rmtree(copy.path, ignore_errors=True)
        shutil.copytree(self.begun.path, copy.path)
        discover(prepare(self.split, self.settings), None, copy, cache=None, progress=Progress())


class _NoData:
    opened = None, None, "not needed"


class _Stop(Progress):
    stage = ""

    def start(self, stage: str, total: int) -> None:
        self.stage = stage

    def advance(self, n: int = 1, note: str = "") -> None:
        if self.stage == "training" and n:
            raise KeyboardInterrupt


def _content(run: RunFolder) -> dict[str, bytes]:
    files = sorted(path for path in run.path.rglob("*") if path.is_file())
    return {path.relative_to(run.path).as_posix(): path.read_bytes() for path in files}


torch.set_num_threads(1)
