"""Growth past one process and one memory: shards on two processes, and features of up to ten million images.

Images in tars are embedded and sorted by one process into one file, by one process in parts, and by two processes with
a shard each. Generated features, 384 for each image, are fitted on a sample and sorted. A table extrapolates to 10^8
images. Every measurement is a command of its own; one thread each.

python benchmarks/scale_out.py --assert            # on an idle machine with two cores; half an hour
python benchmarks/scale_out.py --short             # few images and rows, some minutes
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from killed_shards import fit, write_tars
from measuring import Target, begin, end, parser_with_targets

N_FEATURES, N_KINDS, N_OLD, ROWS_PER_FILE = 384, 100, 50, 100_000
SPEED_UP, OVERHEAD, GROWTH, MOST_GB = 1.7, 1.05, 1.3, 16.0
GPU_IMAGES_PER_SECOND, GPU_PRICE, CORE_PRICE, BUCKET_PRICE = 1500.0, 2.0, 0.04, 0.02
"""Assumed: a ViT-B/16 on a data-centre GPU; dollars per hour of it, per hour of a core, per GB and month of storage."""


class Cost(NamedTuple):
    """Time and memory of several processes together."""

    wall: float
    processor: float
    peak_gb: float


def main() -> None:
    """Measure, print a table of 10^8 images, and compare with the targets."""
    arguments = parser_with_targets(__doc__).parse_args()
    arguments.threads = 1
    begin(arguments, n_rounds=1)
    n_images, n_tars = (400, 8) if arguments.short else (16_000, 16)
    sizes = (40_000, 400_000) if arguments.short else (1_000_000, 10_000_000)
    targets = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tars(folder / "tars", n_images, n_tars)
        run = fit(folder)
        for command in (["embed"], ["predict", run]):
            targets += shared_out([*command, folder / "tars"], folder / command[0], n_images)
        costs = [at_size(folder / str(n), n) for n in sizes]
    (few, many), (less, more) = sizes, costs
    for what in less:
        growth = (more[what].processor / many) / (less[what].processor / few)
        targets.append(Target(f"{what}: processor time per row, {many:,} / {few:,}", growth, GROWTH))
        targets.append(Target(f"{what}: peak memory in GB, {many:,} rows", more[what].peak_gb, MOST_GB))
        added = (more[what].peak_gb - less[what].peak_gb) * 1e9 / (many - few)
        print(f"{what}: {added:.0f} more bytes of memory per row")
    print_table(many, more)
    end(arguments, targets)


def shared_out(command: list[object], folder: Path, n_images: int) -> list[Target]:
    """Return how much faster two shards are than one process, and what parts cost beside one file."""
    name = str(command[0])
    flags = ["--engine", "torch", "--workers", "0", "--quiet"]
    print(f"\n{name}, {n_images:,} images{'':<14}{'wall s':>9}{'processor s':>13}{'peak GB':>9}", flush=True)
    whole = measured([[*command, "--out", f"{folder}.parquet", *flags]], "one process, one file")
    parts = measured([[*command, "--out", f"{folder}-1", *flags]], "one process, in parts")
    shards = [[*command, "--out", f"{folder}-2", "--shard", f"{i}/2", *flags] for i in range(2)]
    two = measured(shards, "two processes, a shard each")
    # Starting takes as long for one image as for a million.
    start = measured([[*command[:-1], one_tar(folder, command[-1]), "--out", f"{folder}-0", *flags]], "one image").wall
    return [
        Target(f"{name}: speed-up of two processes", (parts.wall - start) / (two.wall - start), SPEED_UP, True),
        Target(f"{name}: processor time of parts over one file", parts.processor / whole.processor, OVERHEAD),
    ]


def one_tar(folder: Path, tars: object) -> Path:
    """Return a tar with the first image of others."""
    path = folder.parent / "one.tar"
    with tarfile.open(sorted(Path(str(tars)).iterdir())[0]) as tar, tarfile.open(path, "w") as one:
        member = tar.next()
        assert member is not None
        one.addfile(member, tar.extractfile(member))
    return path


def at_size(folder: Path, n_rows: int) -> dict[str, Cost]:
    """Return what a fit on a sample takes, which also sorts all rows, and a prediction of one of two shards."""
    write_features(folder / "features", n_rows)
    print(
        f"\n{n_rows:>12,} rows of {N_FEATURES} features{'':<2}{'wall s':>9}{'processor s':>13}{'peak GB':>9}",
        flush=True,
    )
    sample = min(100_000, n_rows // 10)
    flags = ["--k", N_KINDS, "--method", "kmeans", "--sample", sample, "--use-all-labels", "--quiet"]
    fit_ = ["fit", folder / "features", "--out", folder / "run", *flags, "--set", "loss.split_at_end=false"]
    predict = ["predict", folder / "run", folder / "features", "--out", folder / "parts", "--shard", "0/2", "--quiet"]
    return {
        "fit on a sample": measured([fit_], f"fit --sample {sample:,}"),
        "predict": measured([predict], "predict --shard 0/2"),
    }


def write_features(folder: Path, n_rows: int) -> None:
    """Write one file of features, and as many links to it as needed: rows without names are named by their file."""
    folder.mkdir(parents=True)
    rng, n = np.random.default_rng(0), min(ROWS_PER_FILE, n_rows // 4)
    kinds = rng.integers(0, N_KINDS, n)
    features = rng.normal(size=(N_KINDS, N_FEATURES)).astype(np.float32)[kinds]
    features += rng.normal(size=features.shape).astype(np.float32) / 2
    labels = [f"kind {kind:02d}" if kind < N_OLD and row % 1000 < 5 else None for row, kind in enumerate(kinds)]
    values = pa.array(features.astype(np.float16).reshape(-1))
    table = pa.table({"label": labels, "feature": pa.FixedSizeListArray.from_arrays(values, N_FEATURES)})
    pq.write_table(table, folder / "part-00000.parquet", row_group_size=4096)
    for part in range(1, n_rows // n):
        os.link(folder / "part-00000.parquet", folder / f"part-{part:05d}.parquet")


def measured(commands: list[list[object]], name: str) -> Cost:
    """Run commands at the same time and return their time, their processor time and the highest peak of memory."""
    code = "import resource, sys; from nngcd.cli import main\ntry: main()\nfinally: print(*resource.getrusage(0)[:3])"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    started = time.perf_counter()
    children = [
        subprocess.Popen([sys.executable, "-c", code, *map(str, command)], stdout=subprocess.PIPE, text=True,
                         env=environment) for command in commands
    ]  # fmt: skip
    said = [child.communicate()[0] for child in children]
    wall = time.perf_counter() - started
    if any(child.returncode for child in children):
        sys.exit(f"{name} failed")
    numbers = [[float(number) for number in text.split()[-3:]] for text in said]
    unit = 1 if sys.platform == "darwin" else 1024
    cost = Cost(wall, sum(user + system for user, system, _ in numbers), max(n[2] for n in numbers) * unit / 1e9)
    print(f"{name:<38}{cost.wall:>9.1f}{cost.processor:>13.1f}{cost.peak_gb:>9.2f}", flush=True)
    return cost


def print_table(n_rows: int, costs: dict[str, Cost]) -> None:
    """Print what 10^8 images would take, on paper."""
    per_million, n_millions = 1e6, 100
    gpu_hours = per_million / GPU_IMAGES_PER_SECOND / 3600
    # One of two shards was measured.
    sort_hours = 2 * costs["predict"].processor / n_rows * per_million / 3600
    gigabytes = per_million * N_FEATURES * 2 / 1e9
    rows = {
        "embed, GPU hours": gpu_hours,
        "embed, dollars": gpu_hours * GPU_PRICE,
        "features in half precision, GB": gigabytes,
        "features in a bucket, dollars a month": gigabytes * BUCKET_PRICE,
        "sort, core hours (measured here)": sort_hours,
        "sort, dollars": sort_hours * CORE_PRICE,
    }
    print(f"\nOn paper, for 10^8 images. Assumed: a GPU embeds {GPU_IMAGES_PER_SECOND:,.0f} images a second and costs")
    print(f"${GPU_PRICE} an hour, a core ${CORE_PRICE} an hour, a bucket ${BUCKET_PRICE} per GB and month.")
    print(f"{'':<40}{'a million':>12}{'10^8':>12}")
    for name, value in rows.items():
        print(f"{name:<40}{value:>12.4f}{value * n_millions:>12.2f}")


if __name__ == "__main__":
    main()
