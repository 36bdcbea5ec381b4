"""Run the short form of every benchmark with targets, and write what they print into benchmarks/RESULTS.md.

python benchmarks/bench.py
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import torch

import nngcd

HERE = Path(__file__).parent
BENCHMARKS = ("training", "clustering", "scaling")


def main() -> None:
    """Run them one after the other; a benchmark that fails is reported in its place, and in the exit code."""
    parts, is_well = [facts()], True
    for name in BENCHMARKS:
        print(f"== {name}", flush=True)
        command = [sys.executable, str(HERE / f"{name}.py"), "--short"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        print(done.stdout, flush=True)
        is_well = is_well and done.returncode == 0
        parts.append(f"## {name}\n\n`python benchmarks/{name}.py --short`\n\n```text\n{done.stdout.strip()}\n```\n")
    (HERE / "RESULTS.md").write_text("\n".join(parts), encoding="utf-8")
    print(f"written to {HERE / 'RESULTS.md'}")
    sys.exit(0 if is_well else 1)


def facts() -> str:
    """Return the page's head: what was measured, and on which machine."""
    return f"""# Short benchmarks

Made by `make bench` on {datetime.now(timezone.utc):%Y-%m-%d}; ratios carry over to other machines, times do not.
Sizes are small here: the claims of docs/results come from the long forms (without `--short`).

| | |
|---|---|
| processor | {processor()}, {os.cpu_count()} cores |
| memory | {memory_gb():.0f} GB |
| system | {platform.system()} {platform.release()} |
| versions | nngcd {nngcd.__version__}, Python {platform.python_version()}, torch {torch.__version__} |
"""


def processor() -> str:
    """Return the processor's name."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def memory_gb() -> float:
    """Return the machine's memory in GB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


if __name__ == "__main__":
    main()
