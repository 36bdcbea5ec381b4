"""`nngcd review`: correct a run in a browser."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nngcd.cli import shared_options
from nngcd.cli.display import say
from nngcd.core.errors import ConfigError, ResourceError, UserError

if TYPE_CHECKING:
    from nngcd.review.session import Review

Change = Callable[[bool], list[str]]
"""Makes corrections, or only says what they would be."""

PORT = 8765
HOST_HELP = "Address to listen on. Any other than the default lets others on the network connect."
READ_ONLY_HELP = "Show the page, but allow no edits."
APPLY_HELP = "Apply the corrections in a CSV file instead of opening a page. Shows them first."
YES_HELP = "With --apply or --from-folders: do not ask for confirmation."
FROM_FOLDERS_HELP = "Apply what you rearranged in exported folders (see `nngcd export --to folders`). Shows it first."
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
    from_folders: Annotated[Path | None, typer.Option(metavar="FOLDER", help=FROM_FOLDERS_HELP)] = None,
    yes: Annotated[bool, typer.Option("--yes", help=YES_HELP)] = False,
) -> None:
    """Open a page in your browser to name, merge, split and correct the categories of a run.

    Every step is saved at once and can be undone. Your images are never changed. Press Ctrl-C to stop.

    Example:  nngcd review runs/first
    """
    if apply is not None or from_folders is not None:
        _apply(run, apply, from_folders, is_sure=yes, is_read_only=read_only)
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
        say(
            "Press Ctrl-C to stop." if page.desk.why_read_only else "Every step is saved at once. Press Ctrl-C to stop."
        )
        if browser:
            webbrowser.open(page.door.link)
        with suppress(KeyboardInterrupt):
            server.serve_until_stopped()
        edits = page.desk.run.edits
        say(f"\nStopped. All edits are in {edits}." if page.desk.version else "\nStopped. There are no edits.")


def _apply(run: Path, table: Path | None, folders: Path | None, *, is_sure: bool, is_read_only: bool) -> None:
    """Show the corrections of a table or of folders, and apply them if the user wants that."""
    from nngcd.core.run_folder import RunFolder
    from nngcd.core.words import count
    from nngcd.review.session import Review

    if is_read_only:
        raise UserError("--read-only cannot be combined with --apply or --from-folders; leave it out.")
    review = Review(RunFolder.open(run))
    change, notes = _corrections(review, table, folders)
    words = change(True)
    for line in words[:MOST_SHOWN]:
        say(line)
    if len(words) > MOST_SHOWN:
        say(f"... and {len(words) - MOST_SHOWN:,} more")
    for note in notes:
        say(note)
    if not words:
        say("Nothing would change.")
    elif is_sure or (sys.stdin.isatty() and typer.confirm("Apply these?")):
        change(False)
        say(f"Applied {count(len(words), 'correction')} as one edit. One undo takes it back.")
    else:
        say("Nothing was changed. Add --yes to apply these.")


def _corrections(review: Review, table: Path | None, folders: Path | None) -> tuple[Change, list[str]]:
    """Return what makes the corrections, as a preview or in earnest, and what is to be said about them."""
    from nngcd.review.corrections import apply_corrections, read_corrections
    from nngcd.review.rearranged import apply_folders, read_folders

    if folders is None and table is not None:
        rows = read_corrections(table)
        return lambda is_preview: apply_corrections(review, rows, is_preview=is_preview), []
    if folders is None or table is not None:
        raise ConfigError("--from-folders", str(folders), "cannot be combined with --apply; run one after the other")
    found = read_folders(folders, review.results)
    return lambda is_preview: apply_folders(review, found, is_preview=is_preview), found.notes
