"""Does `nngcd bench` run? Every method on miniature copies of the seven benchmarks, in their official layouts.

    python benchmarks/smoke.py [DATASET ...]

The numbers mean nothing: two epochs on generated pictures. Each data set ends with a line; a failure ends everything.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "datasets"))
import miniatures

from nngcd.datasets.published_splits import published_names

# The published draw of half of all old images would leave small classes without any.
FLAGS = "--smoke --method all --seeds 0 --image-size 64 --set reading.draw=stratified --quiet".split()


def main() -> None:
    """Run all, or the named ones; say how long each took."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or published_names():
            begun = time.perf_counter()
            root, out = getattr(miniatures, name)(Path(folder) / name), Path(folder) / "runs" / name
            command = [sys.executable, "-m", "nngcd", "bench", name, "--root", str(root), *FLAGS, "--out", str(out)]
            subprocess.run(command, check=True)
            print(f"\n{name}: every method ran, {time.perf_counter() - begun:.0f} s\n", flush=True)
    print(f"all ran in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
