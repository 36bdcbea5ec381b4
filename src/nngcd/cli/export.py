"""`nngcd export`: the results of a run, with the edits of its review, for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nngcd.cli import shared_options
from nngcd.cli.display import progress_display, say, say_json
from nngcd.core.errors import ConfigError

if TYPE_CHECKING:
    from nngcd.export.source import WrittenExport

TO_HELP = "Formats, separated by commas: csv, parquet, folders, coco, labelstudio, hf, onnx."
LINK_HELP = "Export images as hard links, symbolic links or copies."
SKIP_HELP = "Skip images that no longer exist, and say how many."


def export(  # noqa: PLR0913 (one parameter per flag)
    run: shared_options.Run,
    to: Annotated[str, typer.Option(help=TO_HELP)] = "csv",
    out: Annotated[Path, typer.Option(help="The folder to write into.")] = Path("export"),
    link: Annotated[str, typer.Option(metavar="hard|sym|copy", help=LINK_HELP)] = "hard",
    only: Annotated[str | None, typer.Option(metavar="reviewed", help="Export only reviewed images.")] = None,
    csv: Annotated[
        str, typer.Option(metavar="plain|excel", help="CSV style; excel is safe to open in a spreadsheet.")
    ] = "plain",
    root: shared_options.ImageRoot = None,
    skip_missing: Annotated[bool, typer.Option("--skip-missing", help=SKIP_HELP)] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files (never folders).")] = False,
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
) -> None:
    """Export the results of a run for other programs. Your images are linked or copied, never changed.

    Example:  nngcd export runs/first --to csv,folders --out sorted
    """
    from nngcd.core.run_folder import RunFolder
    from nngcd.export.exporting import exported
    from nngcd.export.source import Options
    from nngcd.review.reviewed import reviewed_results

    if only not in (None, "reviewed"):
        raise ConfigError("--only", only, "must be reviewed")
    chosen = Options(link=link, csv=csv, root=root, skip_missing=skip_missing)  # type: ignore[arg-type] # checked there
    folder = RunFolder.open(run)
    written: list[WrittenExport] = []
    try:
        with progress_display(is_quiet=quiet or json) as progress:
            written.extend(
                exported(
                    folder, to, out, chosen, only_reviewed=only is not None, may_overwrite=overwrite, progress=progress
                )
            )
    finally:
        # Also when a later format fails: the files of the earlier ones are complete.
        if not json:
            _show(written)
    reviewed = reviewed_results(folder)
    table = reviewed.table[reviewed.table["reviewed"]] if only else reviewed.table
    categories = reviewed.categories[reviewed.categories["id"].isin(table["category"])]
    n_open, n_all = int((~categories["reviewed"]).sum()), len(categories)
    if json:
        files = [{"path": str(w.path), "what": w.words, "notes": list(w.notes)} for w in written]
        say_json({"out": str(out), "written": files, "n_categories": n_all, "n_not_reviewed": n_open})
        return
    if n_open and only is None:
        say(f"{n_open} of {n_all} categories are not reviewed (reviewed=false). To leave them out: --only reviewed")


def _show(written: list[WrittenExport]) -> None:
    width = max((len(str(one.path)) for one in written), default=0)
    for one in written:
        say(f"{one.path!s:<{width}}  {one.words}")
    for note in (note for one in written for note in one.notes):
        say(note)
