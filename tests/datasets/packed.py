"""Images packed as tars, Parquet and Arrow files, for tests; contents and labels are the same in all forms."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

COLOURS = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200)}
CLASS_LABEL = {"label": {"names": ["red", "green"], "_type": "ClassLabel"}, "image": {"_type": "Image"}}


def pictures(n: int, *, broken: int | None = None) -> list[tuple[str, bytes, str | None]]:
    """Noisy pictures in three colours: name, content, and a label for half of the red and green ones."""
    rng, found = np.random.default_rng(0), []
    for i in range(n):
        colour = list(COLOURS)[i % 3]
        pixels = np.clip(np.array(COLOURS[colour]) + rng.integers(-25, 25, (20, 20, 3)), 0, 255).astype(np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "PNG")
        content = b"no picture" if i == broken else buffer.getvalue()
        found.append((f"{i:06d}", content, colour if i % 3 < 2 and i % 2 else None))
    return found


def write_tars(folder: Path, rows: list[tuple[str, bytes, str | None]], n: int, *, mode: str = "w") -> None:
    """Write WebDataset tars: `000001.png` and, where there is a label, `000001.cls`."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in range(n):
        ending = "tar.gz" if mode.endswith("gz") else "tar"
        with tarfile.open(folder / f"part-{part:02d}.{ending}", mode) as tar:
            for name, content, label in rows[part::n]:
                add(tar, f"{name}.png", content)
                if label is not None:
                    add(tar, f"{name}.cls", label.encode())


def add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


def image_table(rows: list[tuple[str, bytes, str | None]]) -> pa.Table:
    """The columns and metadata that the Hugging Face library writes: images as bytes and path, numbered labels."""
    names = CLASS_LABEL["label"]["names"]
    images = [{"bytes": content, "path": f"{name}.png"} for name, content, _ in rows]
    labels = [-1 if label is None else names.index(label) for _, _, label in rows]
    type_ = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({"image": pa.array(images, type_), "label": pa.array(labels, pa.int64())})
    return table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": CLASS_LABEL}})})


def write_parquet(folder: Path, rows: list[tuple[str, bytes, str | None]], n: int, *, row_group_size: int = 4) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for part in range(n):
        pq.write_table(image_table(rows[part::n]), folder / f"part-{part:02d}.parquet", row_group_size=row_group_size)


def write_arrow(folder: Path, rows: list[tuple[str, bytes, str | None]], n: int) -> None:
    """Write what `save_to_disk` writes, as far as it is read."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dataset_info.json").write_text("{}")
    (folder / "state.json").write_text("{}")
    for part in range(n):
        table = image_table(rows[part::n])
        with pa.OSFile(str(folder / f"data-{part:05d}-of-{n:05d}.arrow"), "wb") as file:
            with pa.ipc.new_stream(file, table.schema) as stream:
                stream.write_table(table, max_chunksize=3)


WRITERS = {"tars": write_tars, "parquet": write_parquet, "huggingface": write_arrow}
