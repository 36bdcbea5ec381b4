"""The forms of files that nngcd writes and reads: text, JSON, YAML, tables and tensors; writing is `core.atomic`'s."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from nngcd.core.atomic import atomic, closing, writing
from nngcd.core.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

DIGEST = "sha256"
"""Under which name a safetensors file keeps the digest of its own content."""


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file, whole or not at all."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a binary file, whole or not at all."""
    with atomic(path) as temporary, writing(path):
        temporary.write_bytes(content)


def write_json(path: Path, values: object) -> None:
    """Write values as indented JSON."""
    write_text(path, json_text(values))


def json_text(values: object) -> str:
    """Return values as `write_json` writes them."""
    return json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_yaml(path: Path, values: object) -> None:
    """Write values as YAML in their own order."""
    write_text(path, yaml.safe_dump(values, sort_keys=False, allow_unicode=True))


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a table as `.csv` or `.parquet`, by the name's ending, without an index column."""
    with atomic(path) as temporary, writing(path):
        if path.suffix == ".parquet":
            table.to_parquet(temporary, index=False)
        else:
            table.to_csv(temporary, index=False, float_format="%.6g")


@contextmanager
def table_writer(path: Path) -> Iterator[Callable[[pd.DataFrame], None]]:
    """Yield a function that adds rows to a `.csv` or `.parquet` table, which appears under its name when all are there.

    The first rows say which columns there are and of which type; those that follow must have the same.
    """
    with atomic(path) as temporary, ExitStack() as stack:
        add = (_parquet_adder if path.suffix == ".parquet" else _csv_adder)(path, temporary, stack)

        def add_rows(rows: pd.DataFrame) -> None:
            with writing(path):
                add(rows)

        yield add_rows


def _csv_adder(path: Path, temporary: Path, stack: ExitStack) -> Callable[[pd.DataFrame], None]:
    with writing(path):
        file = temporary.open("w", encoding="utf-8", newline="")
    stack.enter_context(closing(path, file))

    def add(rows: pd.DataFrame) -> None:
        rows.to_csv(file, index=False, header=file.tell() == 0, float_format="%.6g", lineterminator="\n")

    return add


def _parquet_adder(path: Path, temporary: Path, stack: ExitStack) -> Callable[[pd.DataFrame], None]:
    writers: list[pq.ParquetWriter] = []

    def add(rows: pd.DataFrame) -> None:
        schema = writers[0].schema if writers else None
        table = pa.Table.from_pandas(rows, schema=schema, preserve_index=False)
        if not writers:
            writers.append(stack.enter_context(closing(path, pq.ParquetWriter(temporary, table.schema))))
        writers[0].write_table(table)

    return add


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write named tensors and a few strings as one safetensors file, with the digest of both among the strings."""
    # Imported here: it imports torch, which takes seconds, and tables and JSON need none.
    from safetensors.torch import save_file

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    strings = dict(metadata or {})
    with atomic(path) as temporary, writing(path):
        save_file(plain, temporary, {**strings, DIGEST: tensors_digest(plain, strings)})


def tensors_digest(tensors: Mapping[str, Tensor], strings: Mapping[str, str]) -> str:
    """Return the sha256 of named tensors and strings: names, types, shapes and content."""
    import torch

    digest = hashlib.sha256(json.dumps(sorted(strings.items())).encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def check_outside(out: str | Path, data: str) -> None:
    """Refuse an output place inside the folder of images, before anything is written.

    Raises:
        ConfigError: it is inside, so the next run would read the results as images.
    """
    folder = Path(data)
    if data and folder.is_dir() and Path(out).resolve().is_relative_to(folder.resolve()):
        reason = f"is inside the data folder {data}, so the next run would read it as data. Choose another folder"
        raise ConfigError("--out", str(out), reason)
