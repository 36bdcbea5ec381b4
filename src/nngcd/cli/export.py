"""`nngcd export`: the results of a run, with the edits of its review, for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nngcd.cli import options
from nngcd.cli.display import progress_display, say, say_json
from nngcd.core.errors import ConfigError

if TYPE_CHECKING:
    from nngcd.export.source import Written

TO_HELP = "Formats, with commas between: csv, parquet, folders, coco, labelstudio, hf, onnx."
LINK_HELP = "How image files get into folders: hard links, symbolic links, or copies."
SKIP_HELP = "Leave out images that are no longer there, and say how many."
ROOT_HELP = "Where the images lie now, if they were moved since the run."


def export(  # noqa: PLR0913 (one parameter per flag)
    run: options.Run,
    to: Annotated[str, typer.Option(help=TO_HELP)] = "csv",
    out: Annotated[Path, typer.Option(help="The folder to write into.")] = Path("export"),
    link: Annotated[str, typer.Option(metavar="hard|sym|copy", help=LINK_HELP)] = "hard",
    only: Annotated[str | None, typer.Option(metavar="reviewed", help="Only what a person has reviewed.")] = None,
    csv: Annotated[str, typer.Option(metavar="plain|excel", help="excel: safe to open in a spreadsheet.")] = "plain",
    root: Annotated[Path | None, typer.Option(metavar="FOLDER", help=ROOT_HELP)] = None,
    skip_missing: Annotated[bool, typer.Option("--skip-missing", help=SKIP_HELP)] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files that are there (never folders).")
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write the results of a run for other programs; your images are linked or copied, never changed.

    Example:  nngcd export runs/first --to csv,folders --out sorted
    """
    # Imported here: torch takes seconds, and `nngcd --help` should not wait for it.
    from nngcd.core.components import find_component
    from nngcd.core.run_folder import RunFolder
    from nngcd.export.exporting import write_formats
    from nngcd.export.source import Options, make_source
    from nngcd.review.reviewed import reviewed_results

    if only not in (None, "reviewed"):
        raise ConfigError("--only", only, "must be reviewed")
    chosen = Options(link=link, csv=csv, root=root, skip_missing=skip_missing)  # type: ignore[arg-type] # checked there
    formats = [find_component("nngcd.export", name, "write") for name in dict.fromkeys(to.replace(" ", "").split(","))]
    folder = RunFolder.open(run)
    reviewed = reviewed_results(folder)
    written: list[Written] = []
    try:
        with progress_display(is_quiet=quiet or json) as progress:
            source = make_source(folder, reviewed, chosen, only_reviewed=only is not None, progress=progress)
            written.extend(write_formats(formats, source, out, may_overwrite=overwrite))
    finally:
        # Also when a later format fails: what is written is whole, and there.
        if not json:
            _show(written)
    n_open, n_all = int((~source.categories["reviewed"]).sum()), len(source.categories)
    if json:
        files = [{"path": str(w.path), "what": w.words, "notes": list(w.notes)} for w in written]
        say_json({"out": str(out), "written": files, "n_categories": n_all, "n_not_reviewed": n_open})
        return
    if n_open and only is None:
        say(f"{n_open} of {n_all} categories are not reviewed; column reviewed=false. Only reviewed: --only reviewed")


def _show(written: list[Written]) -> None:
    width = max((len(str(one.path)) for one in written), default=0)
    for one in written:
        say(f"{one.path!s:<{width}}  {one.words}")
    for note in (note for one in written for note in one.notes):
        say(note)
