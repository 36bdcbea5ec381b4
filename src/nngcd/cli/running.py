"""Doing a run from the command line: settings from flags, progress as it goes, and what is said of the result."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import typer

from nngcd.cli.display import PlainFormatter, progress_display, say, say_error, say_json
from nngcd.cli.stopping import EXIT_INTERRUPTED
from nngcd.cli.watching import Watched
from nngcd.cli.words import found_words, has_collapsed, held_back_words, label_error_words, score_words
from nngcd.core import config, processes
from nngcd.core.errors import ConfigError, Interrupted, TrainingError
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder


def values_from(flags: dict[str, Any], config_file: Path | None, assignments: list[str]) -> config.Values:
    """Return what the user gives: file, then flags, then `--set`."""
    given = {name: value for name, value in flags.items() if value is not None}
    from_file = config.read_yaml(config_file) if config_file else {}
    for name in ("method", "preset", "effort"):
        if name in given and given[name] != from_file.get(name, given[name]):
            reason = f"the settings file has {name} {from_file[name]}; change single settings with --set"
            raise ConfigError(f"--{name}", given[name], reason)
    return config.merge(from_file, given, config.parse_assignments(assignments))


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
