"""The display of a run on the command line: its progress, its result, and the log if asked for."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import typer

from nngcd.cli.display import PlainFormatter, progress_display, say, say_error, say_json
from nngcd.cli.stopping import EXIT_INTERRUPTED
from nngcd.cli.words import Summary, found_words, has_collapsed, held_back_words, label_error_words, score_words
from nngcd.core import processes
from nngcd.core.errors import Interrupted, TrainingError
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder
from nngcd.core.words import argument, count

SECONDS_OF_SILENCE = 20


@contextmanager
def shown(*, is_quiet: bool, prefix: str = "") -> Iterator[Progress]:
    """Yield the display of a run's progress; an interrupted run says how to continue.

    Of several processes the first one speaks, and is watched.
    """
    with ExitStack() as around:
        progress: Progress = around.enter_context(
            progress_display(is_quiet=is_quiet or not processes.is_first(), prefix=prefix)
        )
        if processes.count() > 1:
            progress = around.enter_context(Watched(progress, processes.count()))
        try:
            yield progress
        except Interrupted as stop:
            # Printed here: typer ends the program silently.
            say_error(f"\n{stop}", mark="")
            raise typer.Exit(EXIT_INTERRUPTED) from None


def show(run: RunFolder, *, is_json: bool, is_strict: bool) -> None:
    """Print a finished run's result in plain words, or as JSON; of several processes the first one does.

    Raises:
        TrainingError: it is strict, and nearly all unlabelled images fell into one category; the run is kept.
    """
    if not processes.is_first():
        return
    summary = run.read_summary()
    if is_json:
        say_json({"run": str(run.path), **summary})
    else:
        _show_words(run, summary)
    if is_strict and has_collapsed(summary):
        share = f"{summary['largest_share']:.0%} of the unlabelled images fell into one category"
        raise TrainingError(f"T04: {share} (--strict). The run is complete: {run.path}")


def _show_words(run: RunFolder, summary: Summary) -> None:
    from nngcd.core.places import Place
    from nngcd.results.sentences import sample_words
    from nngcd.runs.merging import read_counts

    say()
    for line in [*found_words(summary), *held_back_words(summary), *label_error_words(summary)]:
        say(line)
    if summary["n_unreadable"]:
        say(f"{count(summary['n_unreadable'], 'file')} could not be used: {run.problems}")
    if "scores" in summary:
        for line in score_words(summary["scores"]):
            say(line)
    if assigned := read_counts(Place.of(run.assigned)):
        say(sample_words(assigned))
        say(f"\nThe sample's categories: {run.results_csv}")
        say(f"Every image's category:  {run.assigned} (one table: nngcd merge {argument(run.assigned)} --out all.csv)")
    else:
        say(f"\nEvery image's category:  {run.results_csv}")
    path = argument(run.path)
    look = f"open {run.report} in a browser" if run.report.is_file() else f"nngcd report {path}"
    say(f"Look at the categories:  {look}")
    if summary["backbone"] == "features":
        say(f"Export the results:      nngcd export {path} --to csv --out sorted")
        say(f"Label more features:     nngcd predict {path} NEW.npz --out new.csv")
    else:
        say(f"Sort your files:         nngcd export {path} --to csv,folders --out sorted")
        say(f"Label more images:       nngcd predict {path} NEW_IMAGES/ --out new.csv")


def show_log(is_verbose: bool) -> None:
    """Show what the library logs, if asked to."""
    if is_verbose:
        handler = logging.StreamHandler()
        handler.setFormatter(PlainFormatter("%(name)s: %(message)s"))
        logging.basicConfig(level=logging.INFO, handlers=[handler])


class Watched(Progress):
    """Passes everything on, and says so when a stage of work has stood still for some time.

    Several processes wait for each other: one that is stopped would silence all of them.
    """

    def __init__(self, shown: Progress, n_processes: int) -> None:
        self._shown, self._n_processes = shown, n_processes
        self._moved: float | None = None
        """When the stage moved last; None between stages."""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Watched:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._is_over.set()
        self._thread.join()

    def start(self, stage: str, total: int) -> None:
        """Begin to watch."""
        self._moved = time.monotonic()
        self._shown.start(stage, total)

    def advance(self, n: int = 1, note: str = "") -> None:
        """Note that the stage moves."""
        self._moved = time.monotonic()
        self._shown.advance(n, note)

    def finish(self, note: str = "") -> None:
        """Watch no longer."""
        self._moved = None
        self._shown.finish(note)

    def tell(self, text: str) -> None:
        """Pass it on."""
        self._shown.tell(text)

    def _watch(self) -> None:
        told = None
        while not self._is_over.wait(SECONDS_OF_SILENCE / 4):
            moved = self._moved
            if moved is not None and moved != told and time.monotonic() - moved >= SECONDS_OF_SILENCE:
                told = moved
                text = (
                    f"no progress for {SECONDS_OF_SILENCE} s. Waiting for another of the {self._n_processes} "
                    f"processes, which may be stopped, or for one long step."
                )
                say_error(text, "note:", "yellow")
