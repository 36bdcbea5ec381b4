"""Doing a run from the command line: settings from flags, the run itself, and what is said of it."""

from __future__ import annotations

import logging
import shlex
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import typer

from nngcd.cli.display import PlainFormatter, progress_display, reading, say, say_error, say_json
from nngcd.cli.stopping import EXIT_INTERRUPTED, interrupt_on_sigterm
from nngcd.cli.watching import Watched
from nngcd.cli.words import found_words, has_collapsed, held_back_words, label_error_words, score_words
from nngcd.core import config, processes
from nngcd.core.counting import count
from nngcd.core.device import choose_device
from nngcd.core.errors import ConfigError, TrainingError, UserError, warn
from nngcd.core.files import check_outside
from nngcd.core.progress import Progress
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_config
from nngcd.core.run_schemas import WholeSummary
from nngcd.core.user_cache import default_cache
from nngcd.datasets import open_dataset
from nngcd.datasets.published import published_names
from nngcd.datasets.split import Split
from nngcd.job import check_start, prepare
from nngcd.pipeline import discover
from nngcd.report import read_findings, write_report
from nngcd.settings import OWN_BACKBONE, Settings, resolve


def resumed(path: Path) -> tuple[RunFolder, Settings]:
    """Return the folder and the settings of a run that is to be continued."""
    run = RunFolder.open(path)
    return run, resolve(read_config(run))


def settings_from(flags: dict[str, Any], config_file: Path | None, assignments: list[str]) -> Settings:
    """Return the settings of a new run: what the user gives, over recipe and effort."""
    name = flags.get("data")
    if name in published_names() and not flags.get("dataset") and Path(name).exists():
        text = (
            f"'{name}' is a folder here and is read as a folder of images. For the benchmark of that name: "
            f"--dataset {name} if it lies in this folder, otherwise run this from another folder."
        )
        warn(text)
    return resolve(values_from(flags, config_file, assignments))


def values_from(flags: dict[str, Any], config_file: Path | None, assignments: list[str]) -> config.Values:
    """Return what the user gives: file, then flags, then `--set`."""
    given = {name: value for name, value in flags.items() if value is not None}
    from_file = config.read_yaml(config_file) if config_file else {}
    for name in ("method", "preset", "effort"):
        if name in given and given[name] != from_file.get(name, given[name]):
            reason = f"the settings file is for {name} {from_file[name]}; change single settings with --set"
            raise ConfigError(f"--{name}", given[name], reason)
    values = config.merge(from_file, given, config.parse_assignments(assignments))
    if not values.get("data"):
        raise ConfigError("DATA", None, "say what to sort: a folder, a .csv or .npz file, or `digits`")
    for name in ("data", "weights", "init_from"):
        # Absolute, so that a run can be resumed and evaluated from anywhere. A benchmark's name stays a name: a run
        # folder then works on machines where the data lie elsewhere, and when they are moved one `nngcd data add`
        # mends all runs; that the images are the same is checked by the hash of the split.
        if values.get(name) and Path(values[name]).exists():
            values[name] = str(Path(values[name]).resolve())
    if "effort" not in values:
        # Training a stage of our own backbone gains nothing over frozen features, on any machine (docs/research.md).
        is_fast = choose_device(values.get("device", "auto")).type != "cpu"
        # Not the flag alone: a recipe of a method may name a backbone, too.
        is_other = is_fast and resolve(values | {"effort": "normal"}).backbone != OWN_BACKBONE
        values["effort"] = "normal" if is_other else "quick"
    return values


Opened = tuple[Split, Any]
"""Images with the labels given, and what only scoring may know."""


def open_data(settings: Settings, *, is_quiet: bool) -> Opened:
    """Open the data of a run, with a bar where that takes long."""
    with progress_display(is_quiet=is_quiet) as progress:
        return open_dataset(
            settings.data, dataset=settings.dataset, reading=settings.reading, on_progress=reading(progress)
        )


@dataclass(frozen=True, slots=True)
class InGrid:
    """What one of many runs shares with the others."""

    opened: Opened
    prefix: str
    """What every line of progress begins with."""
    go_on: str
    """The command that goes on with all of them."""


def fit_run(
    settings: Settings,
    *,
    run: RunFolder | None,
    out: Path | None,
    cache: Path | None,
    is_quiet: bool,
    grid: InGrid | None = None,
) -> RunFolder:
    """Open the data, make the run folder (or continue the given one) and do the whole run.

    Args:
        settings: the settings of the run.
        run: the folder of a run to continue.
        out: the folder to make for a new one.
        cache: where views are kept for later runs; the user's own cache when absent.
        is_quiet: whether nothing is to be shown.
        grid: what is different for one of many runs.
    """
    if run and run.is_complete:
        run.remove_litter()
        if not is_quiet:
            say(f"{run.path} is complete already.")
        return run
    choose_device(settings.device)
    check_start(settings)
    # Of several processes the first one speaks and writes.
    is_quiet, prefix = is_quiet or not processes.is_first(), grid.prefix if grid else ""
    split, truth = grid.opened if grid else open_data(settings, is_quiet=is_quiet)
    job = prepare(split, settings)
    for note in _notes(split):
        warn(note)
    if run is None:
        place = out or Path("runs") / f"{split.name}-{datetime.now():%Y%m%d}"
        check_outside(place, settings.data)
        run = _new_run(place, may_rename=grid is None)
    if not is_quiet:
        is_other = out is not None and run.path != out
        say(f"{prefix}run folder: {run.path}" + (f" ({out} is there already)" if is_other else ""))
        say(f"{prefix}method {settings.method}, effort {settings.effort}, seed {settings.seed}")
        say(f"{prefix}{len(split)} images: {split.n_labelled} labelled in "
            f"{count(split.n_old, 'category', 'categories')}, "
            f"{split.n_unlabelled} unlabelled, {split.n_not_used} not used")  # fmt: skip
        if n_held := int(job.is_held_back.sum()):
            say(f"{prefix}{n_held} labels are held back to check the result (--use-all-labels uses them, too)")
    with ExitStack() as around:
        around.enter_context(interruptible(run, grid.go_on if grid else _resume_command(run, cache)))
        if processes.is_first():
            around.enter_context(run.locked())
            run.remove_litter()
            around.enter_context(run.logged())
        shown = around.enter_context(_progress(is_quiet=is_quiet, prefix=prefix))
        discover(job, truth, run, cache=cache or default_cache(run.path.parent), progress=shown)
    return run


@contextmanager
def _progress(*, is_quiet: bool, prefix: str) -> Iterator[Progress]:
    """Yield what shows how far a run is; several processes are watched."""
    with progress_display(is_quiet=is_quiet, prefix=prefix) as shown:
        if processes.count() == 1:
            yield shown
        else:
            with Watched(shown, processes.count()) as watched:
                yield watched


def _new_run(path: Path, *, may_rename: bool) -> RunFolder:
    """Make the run folder; of several processes the first one makes it, and tells the others its name."""
    run = RunFolder.create(path, may_rename=may_rename) if processes.is_first() else None
    return RunFolder(processes.from_first(run and run.path))


def report_on(run: RunFolder, *, is_wanted: bool = True, is_quiet: bool) -> None:
    """Write the page of a run on images. Whatever goes wrong with the page, the run is complete and stays so."""
    if (
        not is_wanted
        or not processes.is_first()
        or run.report.is_file()
        or run.read_summary()["backbone"] == "features"
    ):
        return
    again = f"The run is complete; try again: nngcd report {shlex.quote(str(run.path))}"
    try:
        findings = read_findings(run)
        with progress_display(is_quiet=is_quiet) as progress:
            write_report(findings, run.report, progress=progress)
    except UserError as error:
        warn(f"the report could not be written: {error} {again}")
    except KeyboardInterrupt:
        say_error(f"\nStopped before the report was written. {again}", mark="")
        raise typer.Exit(EXIT_INTERRUPTED) from None


def show(run: RunFolder, *, is_json: bool) -> None:
    """Print a finished run's result in plain words, or as JSON; of several processes the first one does."""
    if not processes.is_first():
        return
    summary = run.read_summary(WholeSummary)
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
        say(f"Take it elsewhere:       nngcd export {path} --to csv --out sorted")
        say(f"Label further features:  nngcd predict {path} NEW.npz --out new.csv")
    else:
        say(f"Sort the files by it:    nngcd export {path} --to csv,folders --out sorted")
        say(f"Label further images:    nngcd predict {path} NEW_IMAGES/ --out new.csv")


def stop_if_collapsed(run: RunFolder) -> None:
    """Raise `TrainingError` when nearly all unlabelled images fell into one category; the run is kept."""
    summary = run.read_summary(WholeSummary)
    if has_collapsed(summary):
        share = f"{summary['largest_share']:.0%} of the unlabelled images fell into one category"
        raise TrainingError(f"T04: {share} (--strict). The run is complete: {run.path}")


def _notes(split: Split) -> list[str]:
    """Return what the user should know about the labels before the work begins."""
    notes = []
    if split.n_old == 1 and split.n_classes is None:
        notes.append("D09: only one known category: known against new will be weak, without a contrast between known.")
    return notes


def _resume_command(run: RunFolder, cache: Path | None) -> str:
    # With several machines, torchrun needs what only the user knows.
    command = "torchrun ... -m nngcd" if processes.count() > 1 else "nngcd"
    flags = shlex.join(["fit", "--resume", str(run.path), *(["--cache", str(cache)] if cache else [])])
    return f"{command} {flags}"


@contextmanager
def interruptible(run: RunFolder, go_on: str) -> Iterator[None]:
    """Turn Ctrl-C, SIGTERM and the end of another process into a clean end that says how to go on."""
    then: Any = interrupt_on_sigterm()
    try:
        yield
    except KeyboardInterrupt as stop:
        say_error(f"\nStopped; {str(stop) or _kept(run)}. Continue:  {go_on}", mark="")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except RuntimeError as error:
        if not processes.is_broken_connection(error):
            raise
        # torchrun now tells this process to end, too, which it does, but not before it has said how to go on.
        then = signal.SIG_IGN
        ended = f"another of the {processes.count()} processes of this run has ended"
        raise TrainingError(f"{ended}; {_kept(run)}. Continue:  {go_on}") from error
    finally:
        signal.signal(signal.SIGTERM, then)


def _kept(run: RunFolder) -> str:
    """Return what of a run that ends too early is kept, in words."""
    if run.is_complete:
        return "the run is complete"
    if run.checkpoint.is_file():
        return "everything up to the last whole epoch is kept"
    return "no epoch is complete yet, so training begins anew"


def show_log(is_verbose: bool) -> None:
    """Show what the library logs, if asked to."""
    if is_verbose:
        handler = logging.StreamHandler()
        handler.setFormatter(PlainFormatter("%(name)s: %(message)s"))
        logging.basicConfig(level=logging.INFO, handlers=[handler])
