"""Parts: one file for each unit of a source, whole or absent, so that work can be shared out, killed and repeated."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nngcd.core.atomic import closing, writing
from nngcd.core.errors import ConfigError, DataError
from nngcd.core.growing_npy import GrowingNpy
from nngcd.core.places import Place
from nngcd.core.progress import Progress
from nngcd.data.sources import Rows, Source
from nngcd.data.split import Problem
from nngcd.runs.shards import Share
from nngcd.training.prefetch import prefetched

PLAN = "_plan.json"
"""Its name begins with an underscore, which readers of Parquet folders pass over."""
FACTS = b"nngcd"
"""Under which key a part keeps what merging needs to know."""
FEATURE = "feature"


class Made(NamedTuple):
    """The table made of some rows, what is counted of it, and what could not be read where the table does not say."""

    table: pa.Table
    counts: Mapping[str, int]
    problems: Sequence[Problem] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A command as work on rows, whose results are kept in parts."""

    command: str
    facts: Mapping[str, Any]
    """Everything that changes the result; parts made with other facts are refused."""
    schema: pa.Schema
    do: Callable[[Rows, Progress], Made]
    set_engine: Callable[[Source, str | None], str]
    """Prepares for a source, with the engine of other processes or one of its own choice, and returns its name."""
    stage: str = "features"
    """Name of the progress."""
    is_npy: bool = False
    """Whether features go into a `.npy` file next to each part."""


def digest_of_units(names: Sequence[str]) -> str:
    """Return what tells the units of one source, in their order, from those of another."""
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Plan:
    """Agreement of all processes that work on one folder."""

    command: str
    facts: dict[str, Any]
    n_units: int
    units_digest: str
    engine: str
    format: int = 1

    @classmethod
    def of(cls, work: Work, source: Source, engine: str) -> Plan:
        """Return the plan of some work on a source."""
        digest = digest_of_units([unit.name for unit in source.units])
        return cls(work.command, json.loads(json.dumps(dict(work.facts))), len(source.units), digest, engine)

    @property
    def digest(self) -> str:
        """Hash of everything; every part carries it."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]

    @classmethod
    def read(cls, out: Place) -> Plan | None:
        """Return the plan in a folder, None where there is none."""
        place = out.below(PLAN)
        if not place.is_file():
            return None
        try:
            return cls(**json.loads(place.read()))
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"R06: {place.text} is damaged ({error}). Delete the folder and start again.") from error


@dataclass(slots=True)
class Written:
    """Work of one process: parts that it wrote, parts that were there, and counts of those it wrote."""

    shard: Share
    n_units: int
    n_there: int = 0
    n_written: int = 0
    counts: Counter[str] = field(default_factory=Counter)


def write_parts(source: Source, out: Place, work: Work, shard: Share, *, progress: Progress) -> Written:
    """Write the parts of a shard that are not there yet; any number of processes may do so at the same time.

    Raises:
        ConfigError: the folder holds something else, or parts of other work.
        ResourceError: it cannot be written.
    """
    plan, own = agree(source, out, work), shard.order(source.units)
    there = set(out.names("part-*"))
    todo = [place for place in own if part_file(place, is_npy=work.is_npy) not in there]
    done = Written(shard, len(source.units), len(own) - len(todo))
    sizes = {place: source.units[place].n_rows for place in todo}
    # Rows are counted where all are known beforehand, otherwise parts.
    is_known = None not in sizes.values()
    progress.start(work.stage, sum(size or 0 for size in sizes.values()) if is_known else len(todo))
    for place in todo:
        # Another process may have written it since: the same shard may run twice.
        if out.below(part_file(place, is_npy=work.is_npy)).is_file():
            done.n_there += 1
            progress.advance(sizes[place] or 0 if is_known else 1)
            continue
        done.counts.update(_write_part(out, place, source, work, plan, progress if is_known else Progress()))
        done.n_written += 1
        if not is_known:
            progress.advance()
    progress.finish()
    return done


def agree(source: Source, out: Place, work: Work) -> Plan:
    """Return the plan of a folder: that of the first process, which the others must share.

    Raises:
        ConfigError: the folder is not empty and has no plan, or its plan is another one.
    """
    before = Plan.read(out)
    if before is None and out.names():
        raise ConfigError("--out", out.text, "is a folder with other files; name a new one")
    engine = work.set_engine(source, before.engine if before else None)
    plan = Plan.of(work, source, engine)
    if before is None:
        out.below(PLAN).claim((json.dumps(asdict(plan), indent=2) + "\n").encode())
        before = Plan.read(out) or plan
        if before.engine != plan.engine:
            plan = Plan.of(work, source, work.set_engine(source, before.engine))
    if plan != before:
        raise ConfigError("--out", out.text, f"R06: {_difference(before, plan)}. Choose another folder")
    return plan


def _difference(before: Plan, now: Plan) -> str:
    if before.command != now.command:
        return f"it holds parts of `nngcd {before.command}`"
    for name in sorted(before.facts.keys() | now.facts.keys()):
        old, new = before.facts.get(name), now.facts.get(name)
        if old != new:
            return f"its parts were made with another {name.replace('_', ' ')} ({old}, now {new})"
    return f"its parts were made of other data ({before.n_units} units, now {now.n_units})"


def part_file(place: int, *, is_npy: bool = False) -> str:
    """Return the name of the file that says that a part is complete."""
    return f"part-{place:05d}.{'npy' if is_npy else 'parquet'}"


def _write_part(out: Place, place: int, source: Source, work: Work, plan: Plan, progress: Progress) -> Counter[str]:
    """Write one part, which gets its name when it is complete, and return what is counted of it."""
    unit, counts, problems = source.units[place], Counter[str](), list[Problem]()
    with ExitStack() as stack:
        # Opened first, so that it gets its name last: with it the part is complete.
        npy = stack.enter_context(_npy_of(out, place, work.schema)) if work.is_npy else None
        add, finish = stack.enter_context(parquet_writer(out.below(part_file(place)), plain(work.schema, work.is_npy)))
        for rows in prefetched(unit.read()):
            table, counted, unread = work.do(rows, progress)
            counts.update(counted)
            problems += unread
            if npy is not None:
                npy.add(features_of_column(table[FEATURE]))
                table = table.drop_columns([FEATURE])
            add(table)
        finish({"plan": plan.digest, "unit": unit.name, "counts": counts, "problems": [asdict(p) for p in problems]})
    return counts


def plain(schema: pa.Schema, is_npy: bool) -> pa.Schema:
    """Return the columns of a part's table; features may have a file of their own."""
    return pa.schema([column for column in schema if not (is_npy and column.name == FEATURE)])


def features_of_column(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return a column of features as (n, d)."""
    values = column.combine_chunks().flatten() if len(column) else pa.array([], column.type.value_type)
    features: NDArray[Any] = values.to_numpy(zero_copy_only=False).reshape(len(column), column.type.list_size)
    return features


@contextmanager
def _npy_of(out: Place, place: int, schema: pa.Schema) -> Iterator[GrowingNpy]:
    of_row = schema.field(FEATURE).type
    target = out.below(part_file(place, is_npy=True))
    with target.write() as temporary:
        with writing(target.text):
            file = GrowingNpy(temporary, of_row.list_size, of_row.value_type.to_pandas_dtype())
        with closing(target.text, file):
            yield file


@contextmanager
def parquet_writer(
    place: Place, schema: pa.Schema
) -> Iterator[tuple[Callable[[pa.Table], None], Callable[[object], None]]]:
    """Yield what adds rows to a Parquet file, and what adds the facts that merging needs."""
    with place.write() as temporary:
        with writing(place.text):
            writer = pq.ParquetWriter(temporary, schema, write_page_checksum=True)
        with closing(place.text, writer):

            def add(table: pa.Table) -> None:
                with writing(place.text):
                    writer.write_table(table)

            def finish(facts: object) -> None:
                writer.add_key_value_metadata({FACTS: json.dumps(facts).encode()})

            yield add, finish
