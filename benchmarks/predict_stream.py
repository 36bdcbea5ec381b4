"""Whether `nngcd predict` needs more memory for more images: its peak with few and with ten times as many.

Small images are made (links to a few files, so that they take no room), sorted by a model that was fitted on some of
them, each count in a process of its own.

python benchmarks/predict_stream.py            # 10,000 and 100,000 images
python benchmarks/predict_stream.py --short    # 300 and 3,000
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from measuring import Target, begin, end, parser_with_targets

N_DIFFERENT, SIDE = 50, 24
CHILD = """
import sys
from nngcd.cli import main
from nngcd.core.memory import peak_gb
try:
    main()
except SystemExit as stop:
    print(peak_gb()["ram"])
    sys.exit(stop.code)
"""


def main() -> None:
    """Print the peak memory of both counts and their ratio."""
    arguments = parser_with_targets(__doc__).parse_args()
    begin(arguments, n_rounds=1)
    few, many = (300, 3_000) if arguments.short else (10_000, 100_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        originals = make_originals(folder / "training")
        options = ["--k", "4", "--method", "kmeans", "--image-size", str(SIDE), "--workers", "0", "--quiet"]
        nngcd("fit", folder / "training", "--out", folder / "run", *options)
        peaks = []
        for n in (few, many):
            link(originals, folder / f"images-{n}", n)
            out = folder / f"{n}.parquet"
            said = nngcd("predict", folder / "run", folder / f"images-{n}", "--out", out, "--workers", "0", "--quiet")
            peaks.append(float(said.splitlines()[-1]))
            print(f"{n:>7,} images: peak {peaks[-1]:.2f} GB", flush=True)
    end(arguments, [Target(f"memory of {many:,} images over that of {few:,}", peaks[1] / peaks[0], 1.1)])


def make_originals(folder: Path) -> list[Path]:
    """Write noisy pictures in four colours, of which two are labelled, and return their files."""
    rng = np.random.default_rng(0)
    files = []
    for number in range(N_DIFFERENT):
        colour = number % 4
        path = folder / (f"colour {colour}" if colour < 2 and number < 32 else "_unlabeled") / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 60, (SIDE, SIDE, 3)) + 150 * (np.arange(3) == colour)
        Image.fromarray(pixels.astype(np.uint8)).save(path)
        files.append(path)
    return files


def link(originals: list[Path], folder: Path, n: int) -> None:
    """Make a folder of `n` links to the files, a thousand in each sub-folder."""
    for number in range(n):
        path = folder / f"{number // 1000:04d}" / f"{number:07d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        os.link(originals[number % len(originals)], path)


def nngcd(*arguments: object, child: str = CHILD) -> str:
    """Run a command in a process of its own and return what it prints, and the peak of its memory as the last line."""
    done = subprocess.run([sys.executable, "-c", child, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


if __name__ == "__main__":
    main()
