"""`nngcd report`: one page that shows what a run found."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from nngcd.cli import shared_options
from nngcd.cli.display import progress_display, say, say_json
from nngcd.core.errors import ConfigError

OVERWRITE_HELP = "Replace FILE if it exists, even if its pictures cannot be made again."
MAX_HELP = "Maximum number of thumbnails, about 6 kB each."


def report(  # noqa: PLR0913 (one parameter per flag)
    run: shared_options.Run,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The page. (default: report.html in RUN)")] = None,
    max_images: Annotated[int, typer.Option(min=0, metavar="N", help=MAX_HELP)] = 2000,
    root: shared_options.ImageRoot = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help=OVERWRITE_HELP)] = False,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
) -> None:
    """Write one HTML page about a finished run: pictures of its categories, a map and its confidence.

    The page opens in any browser, needs no network and can be sent by e-mail.

    Example:  nngcd report runs/first
    """
    from nngcd.core.files import check_outside
    from nngcd.core.run_folder import RunFolder
    from nngcd.core.run_reading import read_config
    from nngcd.report import read_findings, write_report

    folder = RunFolder.open(run)
    if out:
        check_outside(out, str(read_config(folder).get("data", "")))
        if out.exists() and not overwrite and out.resolve() != folder.report.resolve():
            raise ConfigError("--out", str(out), "already exists; choose another name or add --overwrite")
    findings = read_findings(folder, root=root)
    with progress_display(is_quiet=quiet or json) as progress:
        written = write_report(
            findings, out or folder.report, max_images=max_images, may_lose_pictures=overwrite, progress=progress
        )
    if json:
        say_json({**dataclasses.asdict(written), "path": str(written.path)})
        return
    if written.why_no_pictures:
        say(f"No thumbnails: {written.why_no_pictures}")
    if written.n_without_picture:
        say(f"{written.n_without_picture} images could not be shown; the page says why.")
    counts = f"{written.n_categories} categories, {written.n_thumbnails} thumbnails, {written.n_bytes / 1e6:.1f} MB"
    say(f"Written to {written.path} ({counts}). Open it in a browser; it needs no network.")
