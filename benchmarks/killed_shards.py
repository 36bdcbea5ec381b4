"""Whether work in shards survives kills: images in tars, four shards on two processes that are killed at random.

What the shards merge into must be, byte for byte after sorting, what one unbroken process writes.

python benchmarks/killed_shards.py            # 200,000 images in 20 tars
python benchmarks/killed_shards.py --short    # 600 images in 6 tars
"""

from __future__ import annotations

import argparse
import io
import os
import random
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

SIDE, N_DIFFERENT, N_SHARDS, N_PROCESSES = 24, 500, 4, 2


def main() -> None:
    """Make tars, sort them with and without kills, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="few images, a minute or two")
    parser.add_argument("--seed", type=int, default=0, help="of the kills")
    arguments = parser.parse_args()
    n_images, n_tars = (600, 6) if arguments.short else (200_000, 20)
    most_kills, pause = (2, (0.0, 2.0)) if arguments.short else (6, (5.0, 60.0))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tars(folder / "tars", n_images, n_tars)
        run = fit(folder)
        n_kills = sort_under_fire(run, folder, random.Random(arguments.seed), most_kills, pause)
        check(nngcd("merge", folder / "parts", "--out", folder / "merged.csv", "--quiet"))
        started = time.monotonic()
        check(predict(run, folder, folder / "whole.csv"))
        print(f"one unbroken process: {time.monotonic() - started:.0f} s", flush=True)
        merged, whole = (sorted((folder / f"{which}.csv").read_bytes().splitlines()) for which in ("merged", "whole"))
    n_rows = len(whole) - 1
    print(f"{n_images:,} images in {n_tars} tars, {N_SHARDS} shards on {N_PROCESSES} processes, {n_kills} kills")
    print(f"merged rows: {len(merged) - 1:,}; of one unbroken process: {n_rows:,}; same bytes: {merged == whole}")
    sys.exit(0 if merged == whole and n_rows == n_images and n_kills else 1)


def write_tars(folder: Path, n_images: int, n_tars: int) -> None:
    """Write noisy pictures in four colours, each as often as needed."""
    rng, contents = np.random.default_rng(0), []
    for number in range(N_DIFFERENT):
        pixels = rng.integers(0, 60, (SIDE, SIDE, 3)) + 150 * (np.arange(3) == number % 4)
        buffer = io.BytesIO()
        Image.fromarray(pixels.astype(np.uint8)).save(buffer, "PNG")
        contents.append(buffer.getvalue())
    folder.mkdir()
    for part in range(n_tars):
        with tarfile.open(folder / f"part-{part:03d}.tar", "w") as tar:
            for place, number in enumerate(range(part, n_images, n_tars)):
                content = contents[(place + 7 * part) % N_DIFFERENT]
                info = tarfile.TarInfo(f"{number:07d}.png")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))


def fit(folder: Path) -> Path:
    """Return a run on some images of the first tar, with two labelled categories."""
    with tarfile.open(folder / "tars" / "part-000.tar") as tar:
        for place, member in enumerate(tar.getmembers()[:64]):
            is_labelled = place % 4 < 2 and place < 32
            to = folder / "training" / (f"colour {place % 4}" if is_labelled else "_unlabelled")
            to.mkdir(parents=True, exist_ok=True)
            found = tar.extractfile(member)
            assert found is not None
            (to / Path(member.name).name).write_bytes(found.read())
    options = ["--k", "4", "--method", "kmeans", "--image-size", SIDE, "--use-all-labels", "--no-report", "--quiet"]
    options += ["--set", "loss.split_at_end=false", "--workers", "0", "--cache", folder / "cache"]
    check(nngcd("fit", folder / "training", "--out", folder / "run", *options))
    return folder / "run"


def sort_under_fire(run: Path, folder: Path, luck: random.Random, most_kills: int, pause: tuple[float, float]) -> int:
    """Work on the shards with two processes, killing one of them now and then; return how often that was."""
    waiting, at_work, n_kills = list(range(N_SHARDS)), dict[int, subprocess.Popen[bytes]](), 0
    next_kill = time.monotonic() + luck.uniform(*pause)
    while waiting or at_work:
        while waiting and len(at_work) < N_PROCESSES:
            shard = waiting.pop(0)
            at_work[shard] = predict(run, folder, folder / "parts", "--shard", f"{shard}/{N_SHARDS}")
        time.sleep(0.05)
        # In the middle of a part: before, a process only loads what it needs.
        is_writing = any((folder / "parts").glob(".part-*.tmp"))
        if is_writing and n_kills < most_kills and time.monotonic() > next_kill:
            victim = luck.choice(list(at_work))
            at_work[victim].send_signal(signal.SIGKILL)
            at_work[victim].wait()
            del at_work[victim]
            waiting.append(victim)
            n_kills, next_kill = n_kills + 1, time.monotonic() + luck.uniform(*pause)
            there = len(list((folder / "parts").glob("part-*")))
            print(f"killed shard {victim} with {there} parts there", flush=True)
        for shard in [shard for shard, process in at_work.items() if process.poll() is not None]:
            check(at_work.pop(shard))
    return n_kills


def predict(run: Path, folder: Path, out: Path, *more: object) -> subprocess.Popen[bytes]:
    """Start to sort the tars."""
    flags = ["--engine", "torch", "--workers", "1", "--quiet"]
    return nngcd("predict", run, folder / "tars", "--out", out, *flags, *more)


def nngcd(*arguments: object) -> subprocess.Popen[bytes]:
    """Start a command, with one thread."""
    command = [sys.executable, "-m", "nngcd", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"})


def check(process: subprocess.Popen[bytes]) -> None:
    """Wait for a command; end with it if it failed."""
    if process.wait():
        sys.exit(f"{' '.join(map(str, process.args))} failed")  # type: ignore[arg-type]  # a list


if __name__ == "__main__":
    main()
