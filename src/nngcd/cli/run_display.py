"""The display of a run on the command line: its progress, its result, and the log if asked for."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import typer

from nngcd.cli.display import PlainFormatter, progress_display, say, say_error, say_json
from nngcd.cli.stopping import EXIT_INTERRUPTED
from nngcd.cli.watching import Watched
from nngcd.cli.words import found_words, has_collapsed, held_back_words, label_error_words, score_words
from nngcd.core import processes
from nngcd.core.errors import Interrupted, TrainingError
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder


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
            # Said here: typer ends the program without a word.
            say_error(f"\n{stop}", mark="")
            raise typer.Exit(EXIT_INTERRUPTED) from None


def show(run: RunFolder, *, is_json: bool) -> None:
    """Print a finished run's result in plain words, or as JSON; of several processes the first one does."""
    if not processes.is_first():
        return
    summary = run.read_summary()
    if is_json:
        say_json({"run": str(run.path), **summary})
        return
    say()
    for line in [*found_words(summary), *held_back_words(summary), *label_error_words(summary)]:
        say(line)
    if "scores" in summary:
        for line in score_words(summary["scores"]):
            say(line)
    say(f"\nEvery image's category:  {run.results_csv}")
    path = shlex.quote(str(run.path))
    look = f"open {run.report} in a browser" if run.report.is_file() else f"nngcd report {path}"
    say(f"Look at the categories:  {look}")
    if summary["backbone"] == "features":
        say(f"Export the results:      nngcd export {path} --to csv --out sorted")
        say(f"Label more features:     nngcd predict {path} NEW.npz --out new.csv")
    else:
        say(f"Sort your files:         nngcd export {path} --to csv,folders --out sorted")
        say(f"Label more images:       nngcd predict {path} NEW_IMAGES/ --out new.csv")


def stop_if_collapsed(run: RunFolder, *, is_strict: bool) -> None:
    """Raise `TrainingError` if asked to, when nearly all unlabelled images fell into one category; the run is kept."""
    if not is_strict or not processes.is_first():
        return
    summary = run.read_summary()
    if has_collapsed(summary):
        share = f"{summary['largest_share']:.0%} of the unlabelled images fell into one category"
        raise TrainingError(f"T04: {share} (--strict). The run is complete: {run.path}")


def show_log(is_verbose: bool) -> None:
    """Show what the library logs, if asked to."""
    if is_verbose:
        handler = logging.StreamHandler()
        handler.setFormatter(PlainFormatter("%(name)s: %(message)s"))
        logging.basicConfig(level=logging.INFO, handlers=[handler])
