"""Damaged images and tables by the thousand: nothing may crash, hang or end with a traceback.

    python benchmarks/fuzz.py [--images 10000] [--manifests 2000] [--seed 0]

Each batch runs in a process of its own, so that a crash inside a decoder is seen and counted. Whatever is read must be
an image or have a plain reason; whatever a table says must give a split or an error that names it. The last line is the
result; the exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "datasets"))
import mutations

from nngcd.checking.check import check_data
from nngcd.core.errors import DataError
from nngcd.data.decoding import UnreadableError, decode_rgb
from nngcd.data.reading_settings import ReadingSettings

BATCH = 1000
LONGEST = 120
"""Seconds for a single input before it counts as a hang; Python is busy elsewhere on a loaded machine."""


def main() -> None:
    """Run all batches and say how many inputs of each kind went well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--manifests", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.batch:
        kind, seed, n = arguments.batch.split(",")
        print((_images if kind == "images" else _manifests)(int(n), int(seed)))
        return
    started, failures = time.perf_counter(), 0
    for kind, total in (("images", arguments.images), ("manifests", arguments.manifests)):
        for number, start in enumerate(range(0, total, BATCH)):
            batch = f"{kind},{arguments.seed * 1_000_000 + number},{min(BATCH, total - start)}"
            failures += _run(batch)
    seconds = time.perf_counter() - started
    print(f"{arguments.images:,} damaged images, {arguments.manifests:,} damaged tables: "
          f"{failures} batches failed ({seconds:.0f} s)")  # fmt: skip
    sys.exit(failures > 0)


def _run(batch: str) -> int:
    """Run a batch in a process of its own; return 1 if it failed, with what it said."""
    command = [sys.executable, __file__, "--batch", batch]
    ended = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=False
    )
    if ended.returncode == 0:
        print(f"{batch:<24} {ended.stdout.strip().splitlines()[-1]}", flush=True)
        return 0
    print(f"{batch:<24} FAILED with {ended.returncode}\n{ended.stderr[-3000:]}", flush=True)
    return 1


def _images(n: int, seed: int) -> str:
    """Check a folder of damaged images, and decode each: the two must agree."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        mutations.write_good_folder(root)
        for i, (ending, data) in enumerate(mutations.damaged_images(n, seed=seed)):
            (root / f"{i:05d}{ending}").write_bytes(data)
        faulthandler.dump_traceback_later(30 * LONGEST, exit=True)
        report = check_data(str(root), reading=ReadingSettings(allow_bad=1.0))
        readable = set(report.split.table["file_name"]) if report.split is not None else set()
        for path in sorted(root.iterdir()):
            if path.is_file():
                faulthandler.dump_traceback_later(LONGEST, exit=True)
                assert _decodes(path) == (path.name in readable), f"check and decode disagree on {path.name}"
        faulthandler.cancel_dump_traceback_later()
        return f"{report.n_images - 4} of {n} can still be read, the others have a reason"


def _decodes(path: Path) -> bool:
    try:
        return decode_rgb(path.read_bytes()).mode == "RGB"
    except UnreadableError:
        return False


def _manifests(n: int, seed: int) -> str:
    """Check damaged tables beside good images."""
    n_read = 0
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        file_names = mutations.write_good_folder(root)
        for ending, data in mutations.damaged_tables(n, file_names, seed=seed):
            faulthandler.dump_traceback_later(LONGEST, exit=True)
            path = root / f"labels{ending}"
            path.write_bytes(data)
            try:
                report = check_data(str(path))
            except DataError as error:
                assert str(error).startswith("D"), f"an error without a code: {error}"
            else:
                n_read += report.is_ready
                assert set(report.split.table["file_name"] if report.split is not None else ()) <= set(file_names)
            path.unlink()
        faulthandler.cancel_dump_traceback_later()
    return f"{n_read} of {n} can still be used, the others have a reason"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
