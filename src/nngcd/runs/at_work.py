"""A run at work: its folder is made, locked and logged; if it ends early, it says what is kept and how to continue."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

from nngcd.core import processes
from nngcd.core.errors import Interrupted, TrainingError
from nngcd.core.files import check_outside
from nngcd.core.locks import hold
from nngcd.core.run_folder import RunFolder
from nngcd.core.words import count
from nngcd.data.split import Split
from nngcd.runs.preparing import Job


def new_run_folder(out: Path | None, split: Split, data: str, *, may_rename: bool) -> RunFolder:
    """Make the folder of a new run; with several processes, the first one makes it and tells the others its name."""
    path = out or Path("runs") / f"{split.name}-{datetime.now():%Y%m%d}"
    check_outside(path, data)
    run = RunFolder.create(path, may_rename=may_rename) if processes.is_first() else None
    return RunFolder(processes.from_first(run and run.path))


def begun_words(job: Job, folder: Path, asked: Path | None) -> list[str]:
    """Return lines that say what a run is about to do, and where."""
    split, settings = job.given, job.settings
    is_other = asked is not None and folder != asked
    lines = [
        f"run folder: {folder}" + (f" ({asked} already exists)" if is_other else ""),
        f"method {settings.method}, effort {settings.effort}, seed {settings.seed}",
        f"{count(len(split), 'image')}: {split.n_labelled:,} labelled in "
        f"{count(split.n_old, 'category', 'categories')}, {split.n_unlabelled:,} unlabelled, "
        f"{split.n_not_used:,} not used",
    ]
    if n_held_back := int(job.is_held_back.sum()):
        lines.append(
            f"{count(n_held_back, 'label is', 'labels are')} held back to measure the accuracy "
            "(to train with them: --use-all-labels)"
        )
    return lines


@contextmanager
def at_work(run: RunFolder, go_on: str) -> Iterator[None]:
    """Lock the folder and write its log; if the run is interrupted or loses a process, say how to continue.

    Raises:
        Interrupted: somebody stopped the run.
        TrainingError: another process of this run has ended.
        ResourceError: another process is at work in the folder.
    """
    try:
        with ExitStack() as held:
            if processes.is_first():
                held.enter_context(hold(run.path))
                run.remove_litter()
                held.enter_context(run.logged())
            yield
    except KeyboardInterrupt as stop:
        if not run.config.is_file():  # without its settings, a run cannot be continued
            raise Interrupted("Stopped; nothing was kept yet. Repeat the command.") from None
        raise Interrupted(f"Stopped; {str(stop) or _kept(run)}. To continue:  {go_on}") from None
    except RuntimeError as error:
        if not processes.is_broken_connection(error):
            raise
        # torchrun now asks this process to end as well; first it says how to continue.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        ended = f"another of the {processes.count()} processes of this run has ended"
        raise TrainingError(f"{ended}; {_kept(run)}. To continue:  {go_on}") from error


def resume_command(run: RunFolder, cache: Path | None) -> str:
    """Return what to type to continue a run."""
    # With several machines, torchrun needs what only the user knows.
    command = "torchrun ... -m nngcd" if processes.count() > 1 else "nngcd"
    flags = shlex.join(["fit", "--resume", str(run.path), *(["--cache", str(cache)] if cache else [])])
    return f"{command} {flags}"


def _kept(run: RunFolder) -> str:
    """Return the words for what is kept of a run that ends early."""
    if run.is_complete:
        return "the run is complete"
    if run.checkpoint.is_file():
        return "everything up to the last complete epoch is kept"
    return "no epoch is complete yet, so training starts again"
