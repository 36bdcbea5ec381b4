"""The `nngcd` program: its commands, and what happens when one of them fails."""

from __future__ import annotations

import errno
import os
import sys
import traceback
import warnings
from typing import Annotated, NoReturn

import typer

from nngcd import __version__
from nngcd.cli import (
    bench,
    cache,
    check,
    compare,
    data,
    demo,
    doctor,
    embed,
    estimate_k,
    evaluate,
    export,
    figures,
    fit,
    parts,
    peers,
    predict,
    report,
    review,
    study,
)
from nngcd.cli.display import say_error, show_warning
from nngcd.cli.stopping import EXIT_INTERRUPTED, interrupt_on_sigterm
from nngcd.core.atomic import NO_ROOM, cannot_write
from nngcd.core.cores import n_launched
from nngcd.core.errors import ResourceError, TrainingError, UserError

EXIT_BUG = 1

app = typer.Typer(
    name="nngcd",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    demo.demo,
    check.check,
    fit.fit,
    report.report,
    review.review,
    export.export,
    predict.predict,
    embed.embed,
    parts.merge,
    estimate_k.estimate_k,
    evaluate.evaluate,
    compare.compare,
    figures.figures,
    bench.bench,
    study.study,
    doctor.doctor,
):
    app.command()(command)
app.add_typer(data.app, name="data")
app.add_typer(cache.app, name="cache")


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"nngcd {__version__}")
        raise typer.Exit


@app.callback()
def start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Sort partly labelled images into known and newly discovered categories.

    Try it now:  nngcd demo
    """
    if n_launched() > 1 and context.invoked_subcommand not in peers.WAY_OUT:
        shared = ", ".join(peers.WAY_OUT)
        raise UserError(f"only {shared} run in several processes; start `nngcd {context.invoked_subcommand}` in one.")
    if context.invoked_subcommand in peers.WAY_OUT:
        context.with_resource(peers.watched(context.invoked_subcommand))


def program() -> None:
    """Run the command line as a program of its own: one that was stopped ends at once.

    A signal can leave the queue of torch's reading processes locked, and Python would wait for it forever at its end.
    """
    try:
        main()
    except SystemExit as end:
        if end.code == EXIT_INTERRUPTED and n_launched() == 1:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(EXIT_INTERRUPTED)
        raise


def main() -> None:
    """Run the command line; user mistakes end with one clear message and the exit code of their kind."""
    warnings.showwarning = show_warning
    interrupt_on_sigterm()
    try:
        app()
    except UserError as error:
        say_error(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt as stop:
        if str(stop):
            say_error(f"\nStopped; {stop}. Repeat the command to continue.", mark="")
        sys.exit(EXIT_INTERRUPTED)
    except OSError as error:
        _end_of_file(error)
    except (RuntimeError, MemoryError) as error:
        _end_of_machine(error)
    except Exception:  # noqa: BLE001 (whatever else happens is our bug, and is shown as one)
        _report_bug()


def _end_of_file(error: OSError) -> NoReturn:
    """End a command that had no room to write, or was given a name that no file can have; else it is our bug."""
    if error.errno in NO_ROOM:
        say_error(str(cannot_write(error.filename or "a file", error)))
        sys.exit(ResourceError.exit_code)
    if error.errno != errno.ENAMETOOLONG:
        _report_bug()
    say_error(f"'{str(error.filename)[:60]}...' is too long for a file name; choose a shorter one.")
    sys.exit(UserError.exit_code)


def _end_of_machine(error: RuntimeError | MemoryError) -> NoReturn:
    """End a command that ran out of memory or lost its other processes; anything else is our bug."""
    from nngcd.core.memory import is_out_of_memory
    from nngcd.core.processes import is_broken_connection

    if is_out_of_memory(error):
        way_out = "Use smaller images (--image-size) or close other programs. To continue a run: nngcd fit --resume RUN"
        say_error(f"T06: out of memory. {way_out}")
        sys.exit(ResourceError.exit_code)
    if isinstance(error, RuntimeError) and is_broken_connection(error):
        say_error("another process of this run has ended; see its message above or below.")
        sys.exit(TrainingError.exit_code)
    # An error raised inside such a process has another message and is our bug.
    if str(error).startswith("DataLoader worker (pid"):
        way_out = "Try fewer (--workers 1). To continue a run: nngcd fit --resume RUN"
        say_error(
            f"T06: a process that reads images ended unexpectedly; the system may have run out of memory. {way_out}"
        )
        sys.exit(ResourceError.exit_code)
    _report_bug()


def _report_bug() -> NoReturn:
    say_error(traceback.format_exc(), mark="")
    say_error(
        "This is a bug in nngcd. Please report it with the lines above and the output of `nngcd doctor`.", mark=""
    )
    sys.exit(EXIT_BUG)
