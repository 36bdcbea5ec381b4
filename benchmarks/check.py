"""Time of `nngcd check`, on generated JPEGs read from disk, all different.

    python benchmarks/check.py [--images 10000] [--size 500x375] [--assert]

Printed are the seconds by the clock, which other work on the machine lengthens, and the processor's seconds, which it
hardly does; divided by the cores the latter is what an idle machine would need at best.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from nngcd.checking.check import check_data

LIMIT = 60
N_KINDS = 20


def main() -> None:
    """Write the images, check them, print the time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--size", default="500x375", help="width x height; photographs of today have 4000x3000")
    parser.add_argument("--assert", dest="is_strict", action="store_true", help="exit code 1 if it takes too long")
    arguments = parser.parse_args()
    width, height = (int(side) for side in arguments.size.split("x"))
    with tempfile.TemporaryDirectory() as name:
        n_bytes = _write(Path(name), arguments.images, width, height)
        wall, processor = time.perf_counter(), time.process_time()
        report = check_data(name)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
    cores = os.cpu_count() or 1
    assert report.n_images == arguments.images and report.duplicates.empty
    print(f"{arguments.images:,} JPEGs of {width} x {height} pixels, {n_bytes / 1e6:.0f} MB, {cores} cores: "
          f"{wall:.1f} s by the clock, {processor:.1f} s of processor time ({processor / cores:.1f} s a core), "
          f"{1000 * processor / arguments.images:.2f} ms an image; target {LIMIT} s")  # fmt: skip
    # The clock of a busy machine says little; the processor's time is what the program can help.
    if arguments.is_strict and processor / cores > LIMIT:
        sys.exit(1)


def _write(root: Path, n_images: int, width: int, height: int) -> int:
    """Write the images, a third of them labelled; return their bytes."""
    rng = np.random.default_rng(0)
    kinds = []
    for _ in range(N_KINDS):
        # Blurred noise compresses about as photographs do.
        small = Image.fromarray(rng.integers(0, 256, (height // 4 or 1, width // 4 or 1, 3), dtype=np.uint8))
        buffer = BytesIO()
        small.resize((width, height), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=90)
        kinds.append(buffer.getvalue())
    for folder in ("owl", "crow", "_unlabelled"):
        (root / folder).mkdir()
    for i in range(n_images):
        # A comment makes every file different without the cost of encoding it.
        comment = b"\xff\xfe" + (10).to_bytes(2, "big") + i.to_bytes(8, "big")
        data = kinds[i % N_KINDS]
        folder = ("owl", "crow", "_unlabelled", "_unlabelled", "_unlabelled", "_unlabelled")[i % 6]
        (root / folder / f"{i:06d}.jpg").write_bytes(data[:2] + comment + data[2:])
    return n_images * sum(map(len, kinds)) // N_KINDS


if __name__ == "__main__":
    main()
