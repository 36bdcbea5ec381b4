"""Damaged images and tables, for tests and for `benchmarks/fuzz.py`: the same seed gives the same damage."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

HEAD = 64
"""Where formats keep their sizes and offsets: damage there does most."""
STRANGERS = b'\0\n\r",;\t./\\\xff\xfe:'
"""Bytes that mean something in tables and paths."""


def good_images() -> list[tuple[str, bytes]]:
    """Small images of every format and mode that is read: extension and content."""
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)).resize((100, 80))
    deep = Image.fromarray(rng.integers(0, 60_000, (30, 30)).astype(np.uint16))
    exif = Image.Exif()
    exif[0x0112] = 6
    kinds = [
        (image, "JPEG", {}), (image, "JPEG", {"progressive": True}), (image.convert("CMYK"), "JPEG", {}),
        (image.convert("L"), "JPEG", {"exif": exif}), (image, "PNG", {}), (image.convert("RGBA"), "PNG", {}),
        (image.convert("P"), "PNG", {"transparency": 3}), (deep, "PNG", {}), (image, "TIFF", {}), (deep, "TIFF", {}),
        (image, "BMP", {}), (image, "WEBP", {}), (image, "GIF", {"save_all": True, "append_images": [image]}),
        (image, "PPM", {}),
    ]  # fmt: skip
    found = []
    for picture, name, options in kinds:
        buffer = BytesIO()
        picture.save(buffer, name, **options)
        found.append((f".{name.lower()}".replace(".jpeg", ".jpg").replace(".tiff", ".tif"), buffer.getvalue()))
    return found


def good_tables(file_names: list[str]) -> list[tuple[str, bytes]]:
    """Tables of all kinds that list the files: extension and content."""
    labels = [("owl", "crow", "", "Häher, blau")[i % 4] for i in range(len(file_names))]
    table = pd.DataFrame({"file_name": file_names, "label": labels, "split": "train", "group": "7"})
    parquet = BytesIO()
    table.to_parquet(parquet)
    numbers = table.assign(label=[i % 3 - 1 for i in range(len(file_names))])
    return [
        (".csv", table.to_csv(index=False).encode()),
        (".csv", table.to_csv(index=False, sep=";").encode("utf-8-sig")),
        (".csv", table.to_csv(index=False).encode("utf-16")),
        (".tsv", numbers.to_csv(index=False, sep="\t").encode()),
        (".parquet", parquet.getvalue()),
    ]


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """Return the bytes cut short, with some of them changed, taken out, doubled, or strangers put in."""
    raw = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        if raw:
            _damage(raw, kind=int(rng.integers(0, 6)), rng=rng)
    return bytes(raw)


def _damage(raw: bytearray, *, kind: int, rng: np.random.Generator) -> None:
    place, length = int(rng.integers(0, len(raw))), int(rng.integers(1, 200))
    if kind == 0:
        del raw[place:]
    elif kind == 1:
        for at in rng.integers(0, len(raw), size=length // 10 + 1):
            raw[at] = int(rng.integers(0, 256))
    elif kind == 2:
        raw[int(rng.integers(0, min(HEAD, len(raw))))] = int(rng.choice([0, 1, 127, 128, 255]))
    elif kind == 3:
        del raw[place : place + length]
    elif kind == 4:
        raw[place:place] = raw[place : place + length]
    else:
        raw[place:place] = bytes(rng.choice(list(STRANGERS), size=4).tolist())


def damaged_images(n: int, *, seed: int) -> list[tuple[str, bytes]]:
    """Return `n` damaged images, each kind in its turn."""
    kinds = good_images()
    return [
        (kinds[i % len(kinds)][0], damaged(kinds[i % len(kinds)][1], np.random.default_rng([seed, i])))
        for i in range(n)
    ]


def damaged_tables(n: int, file_names: list[str], *, seed: int) -> list[tuple[str, bytes]]:
    """Return `n` damaged tables, each kind in its turn."""
    kinds = good_tables(file_names)
    return [
        (kinds[i % len(kinds)][0], damaged(kinds[i % len(kinds)][1], np.random.default_rng([seed, i])))
        for i in range(n)
    ]


def write_good_folder(root: Path, n: int = 4) -> list[str]:
    """Write a few good images and return their names."""
    names = []
    for i in range(n):
        path = root / "img" / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(i)
        Image.fromarray(rng.integers(0, 256, (20, 24, 3), dtype=np.uint8)).save(path)
        names.append(f"img/{i}.png")
    return names
