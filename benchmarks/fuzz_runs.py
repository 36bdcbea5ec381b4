"""Damaged files of run folders by the thousand: each is read or refused with a reason, without a traceback.

    python benchmarks/fuzz_runs.py [--files 20000] [--seed 0]

JSON, JSON lines, YAML, CSV, Parquet and safetensors files of a finished and of an interrupted run are damaged one at a
time (flipped bits, cut, zeroed, other types, deep nesting, huge numbers, columns and tensors that are missing) and read
by everything that reads them: report, figures, review, predict, evaluate, `fit --init-from` and `fit --resume`. Each
batch runs in a process of its own with bounded memory, so that a crash, a hang and a giant network are seen. The last
line is the result; the exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import resource
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "datasets"))

BATCH = 500
LONGEST = 300
"""Seconds for a single file before it counts as a hang."""
MOST_MEMORY = 6 * 2**30
"""Bytes a batch may map; torch and its libraries take two thirds of that."""


def main() -> None:
    """Run all batches and say how many files were refused, read, or failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.batch:
        seed, n = map(int, arguments.batch.split(","))
        sys.exit(_batch(n, seed))
    started, total = time.perf_counter(), Counter[str]()
    for number, start in enumerate(range(0, arguments.files, BATCH)):
        total += _run(arguments.seed * 1_000_000 + number, min(BATCH, arguments.files - start))
    seconds = time.perf_counter() - started
    print(f"{arguments.files:,} damaged files: {total['refused']:,} refused, {total['fine']:,} read, "
          f"{total['failed']} failed ({seconds:.0f} s)")  # fmt: skip
    sys.exit(total["failed"] > 0)


def _run(seed: int, n: int) -> Counter[str]:
    """Run a batch in a process of its own; one that dies counts as a failure."""
    command = [sys.executable, __file__, "--batch", f"{seed},{n}"]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    lines = ended.stdout.strip().splitlines()
    last = lines[-1].split() if lines else []
    if len(last) != 3:
        print(f"batch {seed}: died with {ended.returncode}\n{ended.stderr[-3000:]}", flush=True)
        return Counter(failed=1)
    print(
        f"batch {seed}: {last[0]} refused, {last[1]} read, {last[2]} failed\n{ended.stderr[-6000:]}".strip(), flush=True
    )
    return Counter(refused=int(last[0]), fine=int(last[1]), failed=int(last[2]))


def _batch(n: int, seed: int) -> int:
    from run_readers import Fuzzed

    rng, counts = np.random.default_rng(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        fuzzed = Fuzzed(Path(name))
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        for i in range(n):
            faulthandler.dump_traceback_later(LONGEST, exit=True)
            state = rng.bit_generator.state
            try:
                counts[fuzzed.try_one(rng)] += 1
            except Exception:  # noqa: BLE001 (that is what is looked for)
                counts["failed"] += 1
                print(f"file {i} of batch {seed}: {_which(fuzzed, state)}", file=sys.stderr)
                traceback.print_exc()
                fuzzed.restore()
        faulthandler.cancel_dump_traceback_later()
    print(counts["refused"], counts["fine"], counts["failed"])
    return 0


def _which(fuzzed: object, state: object) -> str:
    rng = np.random.default_rng()
    rng.bit_generator.state = state
    run, name = fuzzed.files[int(rng.integers(len(fuzzed.files)))]
    return f"{run.path.name}/{name}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
