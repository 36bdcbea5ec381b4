"""`nngcd review`: correct a run in a browser."""

from __future__ import annotations

import sys
import webbrowser
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from nngcd.cli import shared_options
from nngcd.cli.display import say
from nngcd.core.errors import ResourceError

PORT = 8765
HOST_HELP = "Address to listen on. Any other than the default lets others on the network connect."
READ_ONLY_HELP = "Show the page, but allow no edits."
APPLY_HELP = "Apply the corrections in a CSV file instead of opening a page. Shows them first."
MOST_SHOWN = 20
HERE = ("127.0.0.1", "localhost", "::1")


def review(  # noqa: PLR0913 (one parameter per flag)
    run: shared_options.Run,
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="Port to use; 0 for any free one.")] = PORT,
    host: Annotated[str, typer.Option(help=HOST_HELP)] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    read_only: Annotated[bool, typer.Option("--read-only", help=READ_ONLY_HELP)] = False,
    root: shared_options.ImageRoot = None,
    apply: Annotated[Path | None, typer.Option(metavar="FILE", help=APPLY_HELP)] = None,
    yes: Annotated[bool, typer.Option("--yes", help="With --apply: do not ask for confirmation.")] = False,
) -> None:
    """Open a page in your browser to name, merge, split and correct the categories of a run.

    Every step is saved at once and can be undone. Your images are never changed. Press Ctrl-C to stop.

    Example:  nngcd review runs/first
    """
    if apply is not None:
        _apply(run, apply, is_sure=yes)
        return
    if missing := [name for name in ("starlette", "uvicorn") if find_spec(name) is None]:
        raise ResourceError(f"the review page needs {' and '.join(missing)}. Run: pip install 'nngcd[review]'")
    from nngcd.core.run_folder import RunFolder
    from nngcd.review.page.serving import opened

    with opened(RunFolder.open(run), root=root, host=host, port=port, is_read_only=read_only) as server:
        page = server.page
        if page.door.port != port and port:
            say(f"Port {port} is taken; using {page.door.port}.")
        for note in (page.desk.why_read_only, page.pictures.why_none):
            if note:
                say(note)
        if host not in HERE:
            say("Anyone on your network who has this link can see your images and edit this run.")
        say(f"Review {run}:  {page.door.link}")
        say("Every step is saved at once. Press Ctrl-C to stop.")
        if browser:
            webbrowser.open(page.door.link)
        with suppress(KeyboardInterrupt):
            server.serve_until_stopped()
        edits = page.desk.run.edits
        say(f"\nStopped. All edits are in {edits}." if page.desk.version else "\nStopped. There are no edits.")


def _apply(run: Path, table: Path, *, is_sure: bool) -> None:
    from nngcd.core.run_folder import RunFolder
    from nngcd.core.words import count
    from nngcd.review.corrections import apply_corrections, read_corrections
    from nngcd.review.session import Review

    corrections = read_corrections(table)
    opened = Review(RunFolder.open(run))
    words = apply_corrections(opened, corrections, is_preview=True)
    for line in words[:MOST_SHOWN]:
        say(line)
    if len(words) > MOST_SHOWN:
        say(f"... and {len(words) - MOST_SHOWN:,} more")
    if not words:
        say("Nothing would change.")
    elif is_sure or (sys.stdin.isatty() and typer.confirm("Apply these?")):
        apply_corrections(opened, corrections)
        say(f"Applied {count(len(words), 'correction')} as one edit. One undo takes it back.")
    else:
        say("Nothing was changed. Add --yes to apply these.")
