"""`nngcd check`: read everything, change nothing, and say what is odd before the long work begins."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from nngcd.cli import shared_options
from nngcd.cli.display import progress_display, say, say_json
from nngcd.cli.display import reading as reading_shown
from nngcd.cli.reading_options import as_typed, takes_reading
from nngcd.core.errors import ConfigError, DataError

OUT_HELP = (
    "Folder for summary.json, problems.csv, duplicates.csv and near_copies.csv. (default: DATA.check, next to DATA)"
)
TIMES_HELP = "Estimate how long a fit will take (this takes a few seconds)."


@takes_reading
def check(  # noqa: PLR0913 (one parameter per flag)
    data: shared_options.Data,
    dataset: shared_options.Dataset = None,
    out: Annotated[Path | None, typer.Option(help=OUT_HELP)] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 3 if there is any problem.")] = False,
    times: Annotated[bool, typer.Option(help=TIMES_HELP)] = True,
    backbone: shared_options.Backbone = None,
    device: shared_options.Device = "auto",
    json: shared_options.Json = False,
    quiet: shared_options.Quiet = False,
    reading: dict[str, Any] | None = None,
) -> None:
    """Check all images of DATA before sorting: counts, unreadable files, duplicates, suspicious labels.

    Nothing is changed. Exits with code 3 if `nngcd fit` would refuse the data or, with --strict, if there is any
    problem.

    Example:  nngcd check my_images/
    """
    from nngcd.checking.check import check_data
    from nngcd.core.config import build
    from nngcd.data.reading_settings import ReadingSettings

    folder = _out_folder(data, out)
    with progress_display(is_quiet=quiet or json) as progress:
        chosen = build(ReadingSettings, reading or {})
        report = check_data(data, dataset=dataset, reading=chosen, on_progress=reading_shown(progress))
        chosen_reader = ("--dataset", dataset) if dataset else ()
        report = dataclasses.replace(report, flags=(*chosen_reader, *as_typed(reading or {})))
        if times and report.split is not None and report.split.images is not None:
            from nngcd.checking.effort_times import with_times
            from nngcd.runs.run_settings import with_backbone

            named = {"backbone": backbone} if backbone else {}
            asked = {"data": data, "dataset": dataset, "device": device, **named}
            network = with_backbone(asked, tell=progress.tell)
            report = with_times(
                report, backbone=network.get("backbone"), image_size=network.get("image_size"), device=device
            )
    # Printed before it is written: next to images on a read-only share, writing fails.
    if json:
        say_json({"out": str(folder), **report.to_json()})
    else:
        say(str(report))
    report.write(folder)
    if not json:
        tables = {
            "problems.csv": report.problems,
            "duplicates.csv": report.duplicates,
            "near_copies.csv": report.near_copies,
        }
        if written := [str(folder / name) for name, table in tables.items() if len(table)]:
            say(f"Every file by name:  {', '.join(written)}")
    if not report.is_ready or (strict and report.has_problems):
        raise typer.Exit(DataError.exit_code)


def _out_folder(data: str, out: Path | None) -> Path:
    """Return where the report goes: never into the data, which it must not change."""
    path = Path(data)
    if not path.exists():
        return out or Path(f"{path.name}.check")
    from nngcd.core.files import check_outside  # brings pandas, for which `nngcd --help` should not wait

    folder = out or path.resolve().with_name(f"{path.resolve().stem if path.is_file() else path.resolve().name}.check")
    check_outside(folder, data)
    if folder.exists() and not folder.is_dir():
        raise ConfigError("--out", str(folder), "is a file")
    return folder if out else _relative(folder)


def _relative(path: Path) -> Path:
    """Return the path as a person would type it from here, if that is short."""
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path
