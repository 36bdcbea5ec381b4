"""From parts to one data set: all of them are there, they belong together, and a manifest says what they hold."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nngcd.core.environment import now
from nngcd.core.errors import ConfigError, DataError
from nngcd.core.files import table_writer
from nngcd.core.places import Place
from nngcd.core.progress import Progress
from nngcd.data.split import Problem
from nngcd.runs.parts import FACTS, PLAN, Plan, digest_of_units, parquet_writer, part_file

MANIFEST = "_manifest.json"
MOST_PROBLEMS = 1000
"""Problems that a manifest lists; it counts all."""
MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Merged:
    """All parts of a folder, counted."""

    plan: Plan
    n_rows: int
    counts: Counter[str]
    problems: list[Problem]
    files: list[str]


def merge(out: Place, *, progress: Progress | None = None) -> Merged:
    """Check that all parts are there and belong together, and write the manifest that makes them one data set.

    Raises:
        DataError: parts are missing or damaged, or one is of other work.
    """
    progress = progress or Progress()
    plan = Plan.read(out)
    if plan is None:
        raise DataError(f"R06: '{out.text}' has no {PLAN}, so it was not written by nngcd embed or predict.")
    is_npy = plan.facts.get("format") == "npy"
    _check_all_there(out, plan, is_npy=is_npy)
    merged = Merged(plan, 0, Counter(), [], [])
    n_rows, parts = 0, []
    progress.start("merging", plan.n_units)
    for place in range(plan.n_units):
        facts, n = _facts_of(out.below(part_file(place)), plan)
        n_rows += n
        merged.counts.update(facts["counts"])
        merged.problems.extend(Problem(**one) for one in facts["problems"])
        parts.append({"file": part_file(place, is_npy=is_npy), "unit": facts["unit"], "rows": n})
        progress.advance()
    progress.finish()
    _check_places(out, plan, [str(part["unit"]) for part in parts])
    merged = Merged(plan, n_rows, merged.counts, merged.problems, [part["file"] for part in parts])
    manifest = {
        "command": plan.command, "plan": plan.digest, "facts": plan.facts, "engine": plan.engine, "rows": n_rows,
        "counts": dict(sorted(merged.counts.items())), "n_problems": len(merged.problems),
        "problems": [f"{p.file_name}: {p.code}: {p.reason}" for p in merged.problems[:MOST_PROBLEMS]],
        "parts": parts, "finished": now(),
    }  # fmt: skip
    with out.below(MANIFEST).write() as temporary:
        temporary.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return merged


def read_counts(out: Place) -> Counter[str] | None:
    """Return what is counted of all rows of a merged folder; None where it is not merged."""
    place = out.below(MANIFEST)
    if not place.is_file():
        return None
    try:
        return Counter({str(name): int(count) for name, count in json.loads(place.read())["counts"].items()})
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"R06: {place.text} is damaged ({error}). Delete it and run `nngcd merge` again.") from error


def missing_parts(out: Place, plan: Plan) -> list[int]:
    """Return which parts of a folder are not there yet."""
    there, is_npy = set(out.names("part-*")), plan.facts.get("format") == "npy"
    return [place for place in range(plan.n_units) if part_file(place, is_npy=is_npy) not in there]


def write_one_file(out: Place, merged: Merged, path: Path) -> None:
    """Write all parts as one table, in the order of the data.

    Raises:
        ConfigError: the file exists, or features go into a format that cannot hold them.
        DataError: a part is damaged.
    """
    if path.suffix not in (".csv", ".parquet"):
        raise ConfigError("--out", str(path), "must end in .csv or .parquet")
    if path.exists():
        raise ConfigError("--out", str(path), "already exists; choose another name")
    if merged.plan.command == "embed" and (path.suffix == ".csv" or merged.plan.facts.get("format") == "npy"):
        raise ConfigError("--out", str(path), "features are merged into one file from Parquet to .parquet only")
    if path.suffix == ".csv":
        with table_writer(path) as add:
            for table in tables_of(out, merged):
                add(table.to_pandas())
        return
    tables = tables_of(out, merged)
    first = next(tables)
    with parquet_writer(Place.of(path), first.schema.remove_metadata()) as (add_table, _):
        for table in itertools.chain([first], tables):
            add_table(table)


def tables_of(out: Place, merged: Merged) -> Iterator[pa.Table]:
    """Yield the rows of Parquet parts, in order."""
    for name in merged.files:
        place = out.below(name)
        try:
            with place.open() as file:
                part = pq.ParquetFile(file, page_checksum_verification=True)
                for group in range(part.num_row_groups):
                    yield part.read_row_group(group).replace_schema_metadata()
                if not part.num_row_groups:
                    yield part.schema_arrow.remove_metadata().empty_table()
        except (OSError, pa.ArrowException) as error:
            raise _damaged(place, error, merged.plan.command) from error


def _check_all_there(out: Place, plan: Plan, *, is_npy: bool) -> None:
    missing = missing_parts(out, plan)
    if missing:
        files = [part_file(place, is_npy=is_npy) for place in missing[:MOST_NAMED]]
        named = ", ".join(files) + (", ..." if len(missing) > MOST_NAMED else "")
        raise DataError(
            f"R06: '{out.text}' has {plan.n_units - len(missing):,} of {plan.n_units:,} parts; missing: {named}. "
            f"Run the same `nngcd {plan.command}` again without --shard: it writes them all."
        )
    if is_npy:
        there = set(out.names("part-*"))
        if lost := [place for place in range(plan.n_units) if part_file(place) not in there]:
            raise _damaged(out.below(part_file(lost[0])), "the table of its rows is gone", plan.command)


def _check_places(out: Place, plan: Plan, units: list[str]) -> None:
    """Raise `DataError` where a part was copied or renamed to the place of another."""
    if digest_of_units(units) == plan.units_digest:
        return
    again = f"run the same `nngcd {plan.command}` again: it writes what is missing."
    twice = next((place for place, unit in enumerate(units) if unit in units[:place]), None)
    if twice is None:
        raise DataError(f"R06: '{out.text}': parts have each other's names. Delete all parts and {again}")
    # Which of the two is the copy cannot be told from here.
    first, second = part_file(units.index(units[twice])), part_file(twice)
    raise DataError(f"R06: '{out.text}': {first} and {second} hold the same rows. Delete both and {again}")


def _facts_of(place: Place, plan: Plan) -> tuple[dict[str, Any], int]:
    """Return what a part says about itself, and how many rows it has."""
    try:
        with place.open() as file:
            metadata = pq.read_metadata(file)
        facts = json.loads(metadata.metadata[FACTS])
        digest = facts["plan"]
    except (OSError, pa.ArrowException, ValueError, TypeError, KeyError) as error:
        raise _damaged(place, error, plan.command) from error
    if digest != plan.digest:
        raise DataError(f"R06: {place.text} belongs to another job than the rest. {_again(plan.command)}")
    return facts, metadata.num_rows


def _damaged(place: Place, reason: object, command: str) -> DataError:
    return DataError(f"R06: {place.text} is damaged ({reason}). {_again(command)}")


def _again(command: str) -> str:
    return f"Delete it and run the same `nngcd {command}` again: it writes what is missing."
