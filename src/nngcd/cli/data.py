"""`nngcd data`: the known benchmarks, where they are on this machine, and whether a copy is complete."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nngcd.cli import shared_options
from nngcd.cli.display import progress_display, say, say_json
from nngcd.core.errors import DataError

if TYPE_CHECKING:
    from nngcd.datasets.verification import CopyReport

N_PROBLEMS_SHOWN = 20

Name = Annotated[str, typer.Argument(metavar="NAME", help="A benchmark, as in `nngcd data list`.")]
Root = Annotated[Path, typer.Argument(metavar="ROOT", help="The folder where its official archive was unpacked.")]
OptionalRoot = Annotated[
    Path | None, typer.Argument(metavar="ROOT", help="The folder of the data set. (default: as added)")
]

app = typer.Typer(no_args_is_help=True, help="List, add and check benchmark data sets. Nothing is downloaded.")


@app.command("list")
def list_(json: shared_options.Json = False) -> None:
    """List the benchmarks, their published counts, and where each one is.

    Example:  nngcd data list
    """
    rows = _rows()
    if json:
        say_json(rows)
        return
    say(f"{'name':<14} {'old / new':>10} {'labelled':>9} {'unlabelled':>11} {'test':>7}  where")
    for row in rows:
        classes, test = f"{row['n_old']} / {row['n_new']}", f"{row['n_test']:,}" if row["n_test"] else "-"
        counts = f"{row['n_labelled']:>9,} {row['n_unlabelled']:>11,} {test:>7}"
        say(f"{row['name']:<14} {classes:>10} {counts}  {_where(row)}")
    say("(labelled and unlabelled as in Table I of the NN-GCD paper, which rounds those of ImageNet-100, Aircraft and "
        "Herbarium 19 to hundreds; test: the official images)")  # fmt: skip


@app.command()
def add(name: Name, root: Root, json: shared_options.Json = False, quiet: shared_options.Quiet = False) -> None:
    """Check a benchmark and remember where it is; after that `nngcd fit NAME` is enough.

    Example:  nngcd data add cub /data/CUB_200_2011
    """
    from nngcd.datasets.places import check_benchmark, known_places, remember_place
    from nngcd.datasets.verification import verify as verify_copy

    check_benchmark(name)
    before = known_places().get(name)
    with progress_display(is_quiet=quiet or json) as progress:
        report = verify_copy(name, root, progress=progress)
    remember_place(name, root)
    if json:
        say_json(_values(report))
        return
    _show(report)
    say(f"\nAdded: {report.root}" + (f" (was {before})" if before not in (None, report.root) else ""))
    say(f"Sort its images:  nngcd fit {name}")


@app.command()
def verify(
    name: Name, root: OptionalRoot = None, json: shared_options.Json = False, quiet: shared_options.Quiet = False
) -> None:
    """Read every file of a benchmark and compare the counts with the published ones.

    Exits with code 3 if they differ.

    Example:  nngcd data verify cub
    """
    from nngcd.datasets.places import check_benchmark, place_of
    from nngcd.datasets.verification import verify as verify_copy

    check_benchmark(name)
    place = root or place_of(name)
    if place is None:
        raise DataError(f"the folder of '{name}' is not known. Give it: nngcd data verify {name} ROOT")
    with progress_display(is_quiet=quiet or json) as progress:
        # Lists all problems, so no number of them stops the reading.
        report = verify_copy(name, place, progress=progress, allow_bad=1.0)
    if json:
        say_json(_values(report))
    else:
        _show(report)
    if not report.is_right:
        raise typer.Exit(DataError.exit_code)


def _rows() -> list[dict[str, Any]]:
    from nngcd.datasets.opening import open_dataset
    from nngcd.datasets.places import known_places
    from nngcd.datasets.published_splits import published_names, published_split

    places = known_places()
    rows: list[dict[str, Any]] = []
    for split in map(published_split, published_names()):
        n_old, place = len(split.old_classes), places.get(split.name)
        rows.append({
            "name": split.name, "n_old": n_old, "n_new": split.n_classes - n_old, "n_labelled": split.n_labelled,
            "n_unlabelled": split.n_unlabelled, "n_test": split.n_test, "root": place,
            "is_there": place is not None and Path(place).is_dir(),
        })  # fmt: skip
    digits, _ = open_dataset("digits", dataset="digits")
    rows.append({
        "name": "digits", "n_old": digits.n_old, "n_new": (digits.n_classes or 0) - digits.n_old,
        "n_labelled": digits.n_labelled, "n_unlabelled": digits.n_unlabelled, "n_test": None, "root": None,
        "is_there": True,
    })  # fmt: skip
    return rows


def _where(row: dict[str, Any]) -> str:
    if row["is_there"]:
        return str(row["root"] or "comes with nngcd")
    gone = f"{row['root']} is gone; " if row["root"] else ""
    return f"{gone}nngcd data add {row['name']} ROOT"


def _values(report: CopyReport) -> dict[str, Any]:
    return {**asdict(report), "is_right": report.is_right}


def _show(report: CopyReport) -> None:
    """Print a report: counts, hash and problems."""
    state = "OK" if report.is_right else "differs from the published split"
    say(f"{report.name}: {state}; {report.n_old} old and {report.n_new} new classes in {report.root}")
    say(f"{'images':<12} {'expected':>14} {'found':>9}")
    for count in report.counts:
        differs = "" if count.is_right else "  differs"
        say(f"{count.what:<12} {count.expected_words:>14} {count.found:>9,}{differs}")
    if report.why_no_test:
        say(f"no test images; only `evaluate --split test` needs them ({report.why_no_test})")
    say(f"split hash   {report.split_hash}")
    if report.problems:
        say(f"{len(report.problems):,} files cannot be used:")
    for problem in report.problems[:N_PROBLEMS_SHOWN]:
        say(f"  {problem.file_name}: {problem.reason} ({problem.code})")
    if len(report.problems) > N_PROBLEMS_SHOWN:
        say(f"  ... and {len(report.problems) - N_PROBLEMS_SHOWN:,} more; --json lists all")
