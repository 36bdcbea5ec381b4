"""Damage to the files of a run, for tests and `benchmarks/fuzz_runs.py`: the same seed gives the same damage."""

from __future__ import annotations

import json
from io import BytesIO

import numpy as np
import pandas as pd
import yaml

DEEP = 3000
"""Lists within lists: more than any reader may follow."""
STRANGE = (None, True, "", "x", "\0\x1b[31m", -1, 0, 1, 7, 99, 2**31, 2**70, 0.5, -1e308, 1e308, 1e-320, [], {}, [None],
           ["a", "a"], [[1, 2]], {"a": {"b": 1}}, "y" * 20_000, "/etc/passwd", "../..", "eva02_large_patch14_448",
           "vit_giant_patch14_dinov2", [1] * 1000, "nan")  # fmt: skip
"""Values that a file may hold in the place of its own."""


def mutated(name: str, content: bytes, rng: np.random.Generator) -> bytes:
    """Return damaged content of a file: half of the time bytes change, otherwise what the file means."""
    if not content or rng.random() < 0.4:
        return damaged_bytes(content, rng)
    suffix = name.rpartition(".")[2]
    return {"json": _json, "jsonl": _jsonl, "yaml": _yaml, "parquet": _parquet, "csv": _csv,
            "safetensors": _safetensors}[suffix](content, rng)  # fmt: skip


def damaged_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the bytes with bits flipped, cut short, partly zeroed, or with strangers in between."""
    raw = bytearray(content)
    place = int(rng.integers(len(raw) + 1))
    kind = rng.integers(6)
    if kind == 0:
        del raw[place:]
    elif kind == 1:
        end = min(len(raw), place + int(rng.integers(1, 600)))
        raw[place:end] = bytes(end - place)
    elif kind == 2:
        raw[place:place] = rng.integers(0, 256, int(rng.integers(1, 40)), dtype=np.uint8).tobytes()
    elif kind == 3:
        raw[place:place] = rng.choice([b"[" * 100_000, b'{"a":' * 50_000, b"9" * 6000, b"\n\n", b"\xff\xfe", b"NaN,"])
    for _ in range(int(rng.integers(1, 9)) if kind > 3 and raw else 0):
        raw[int(rng.integers(len(raw)))] ^= 1 << int(rng.integers(8))
    return bytes(raw)


def changed(values: object, rng: np.random.Generator) -> object:
    """Return nested values with one of them replaced, taken out, or given another name."""
    places = list(_places(values, ()))
    if not places:
        return STRANGE[int(rng.integers(len(STRANGE)))]
    *way, last = places[int(rng.integers(len(places)))]
    part = values
    for key in way:
        part = part[key]
    kind = rng.integers(8)
    if kind == 0:
        del part[last]
    elif kind == 1 and isinstance(part, dict):
        part[f"{last}x"] = part.pop(last)
    elif kind == 2:
        part[last] = _nested(int(rng.integers(2, DEEP)))
    elif kind == 3 and isinstance(part[last], (int, float)) and not isinstance(part[last], bool):
        part[last] = part[last] * int(rng.choice([-1, 2, 10, 10**6])) + int(rng.integers(-1, 2))
    else:
        part[last] = STRANGE[int(rng.integers(len(STRANGE)))]
    return values


def _nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def _places(values: object, way: tuple) -> object:
    if len(way) > 20:
        return
    pairs = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    for key, value in list(pairs)[:200]:
        yield (*way, key)
        yield from _places(value, (*way, key))


def _json(content: bytes, rng: np.random.Generator) -> bytes:
    values = json.loads(content)
    for _ in range(int(rng.integers(1, 3))):
        values = changed(values, rng)
    return _dumped(values)


def _dumped(values: object) -> bytes:
    try:
        return json.dumps(values).encode()
    except (RecursionError, ValueError):
        return b"[" * DEEP + b"]" * DEEP


def _jsonl(content: bytes, rng: np.random.Generator) -> bytes:
    lines = content.splitlines()
    place = int(rng.integers(len(lines)))
    values = json.loads(lines[place])
    if rng.random() < 0.8 and isinstance(values, dict):
        values.pop("sha256", None)
    lines[place] = _dumped(changed(values, rng))
    return b"\n".join(lines) + b"\n"


def _yaml(content: bytes, rng: np.random.Generator) -> bytes:
    values = changed(yaml.safe_load(content), rng)
    if rng.random() < 0.2:
        strange = ["!!timestamp x", "2024-99-99", "!!bool maybe", "&a [*a]", "!!int x", "{a: &b 1, <<: *b}", ".inf"]
        return content + f"\nextra: {rng.choice(strange)}\n".encode()
    try:
        return yaml.safe_dump(values).encode()
    except (RecursionError, yaml.YAMLError):
        return b"data: " + b"[" * DEEP


def _parquet(content: bytes, rng: np.random.Generator) -> bytes:
    buffer = BytesIO()
    _changed_table(pd.read_parquet(BytesIO(content)), rng).to_parquet(buffer, index=bool(rng.random() < 0.1))
    return buffer.getvalue()


def _csv(content: bytes, rng: np.random.Generator) -> bytes:
    return _changed_table(pd.read_csv(BytesIO(content), dtype=str), rng).to_csv(index=False).encode()


def _changed_table(table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    name = str(rng.choice(table.columns))
    kind = rng.integers(9)
    if kind == 0:
        return table.drop(columns=name)
    if kind == 1:
        return table.rename(columns={name: f"{name}x"})
    if kind == 2:
        return table.iloc[: int(rng.integers(3))]
    if kind == 3:
        return pd.concat([table, table.iloc[:2]])
    if kind == 4:
        return table.sample(frac=1, random_state=int(rng.integers(1000)))
    others = [None, "x", 3, -1.5, 1e300, np.inf, np.nan, True, [1, 2], {"a": 1}, b"\xff", pd.Timestamp(0), ""]
    value = others[int(rng.integers(len(others)))]
    rows = rng.random(len(table)) < rng.choice([0.02, 1.0])
    column = [value if is_other else old for is_other, old in zip(rows, table[name], strict=True)]
    kinds = {type(one) for one in column if one is not None}
    return table.assign(**{name: column if len(kinds) < 2 else [str(one) for one in column]})


def _safetensors(content: bytes, rng: np.random.Generator) -> bytes:
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    if rng.random() < 0.6:
        header.get("__metadata__", {}).pop("sha256", None)
    kind = rng.integers(4)
    tensors = [name for name in header if name != "__metadata__"]
    name = str(rng.choice(tensors))
    if kind == 0:
        header[f"{name}x"] = header.pop(name)
    elif kind == 1:
        header[name]["shape"] = list(reversed(header[name]["shape"]))
        header[name]["dtype"] = str(rng.choice(["F32", "I32", "F16", "BF16", "I64", "BOOL", "U8"]))
    elif kind == 2:
        header.setdefault("__metadata__", {})["epochs_done"] = str(
            rng.choice(["x", "99", "-1", "0", "1e3", "9" * 5000])
        )
    else:
        header = changed(header, rng)
    data = bytearray(content[8 + size :])
    if rng.random() < 0.4 and data:
        start = int(rng.integers(len(data)))
        data[start : start + 4] = rng.choice([b"\xff\xff\xff\x7f", b"\0\0\x80\x7f", b"\0\0\0\0", b"\xff\x7f\xff\x7f"])
    head = _dumped(header)
    return len(head).to_bytes(8, "little") + head + bytes(data[: len(content) - 8 - size])
