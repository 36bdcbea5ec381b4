"""Compare methods on one data set over several seeds: a run folder each, one table at the end; it can be continued.

python benchmarks/compare.py digits --seeds 0-2 --out runs/digits
python benchmarks/compare.py ../shared/data/cub --dataset cub --preset official --seeds 0-2 --out runs/cub-official
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from nngcd.cli.options import seed_range
from nngcd.cli.running import fit_run
from nngcd.core.config import merge, parse_assignments
from nngcd.core.files import read_json
from nngcd.core.run_folder import RunFolder
from nngcd.settings import resolve


def main() -> None:
    """Run what has not been run yet and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--dataset")
    parser.add_argument("--methods", default="kmeans,simgcd,nngcd")
    parser.add_argument("--preset", default="default")
    parser.add_argument("--effort", default="quick")
    parser.add_argument("--seeds", default="0-2")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    seeds = seed_range(arguments.seeds)
    print(f"| method | All | Old | New | NMI | seconds a run | ({len(seeds)} seeds, preset {arguments.preset})")
    print("|---|---|---|---|---|---|")
    for method in arguments.methods.split(","):
        print(row(method, [summary(arguments, method, seed) for seed in seeds]), flush=True)


def summary(arguments: argparse.Namespace, method: str, seed: int) -> dict[str, Any]:
    """Return the summary of one run, made now, continued, or found complete."""
    path = arguments.out / f"{method}-{seed}"
    run = RunFolder(path) if (path / "config.yaml").is_file() else None
    values = {name: getattr(arguments, name) for name in ("data", "dataset", "preset", "effort")}
    settings = resolve(merge(values, {"method": method, "seed": seed}, parse_assignments(arguments.set)))
    run = fit_run(settings, run=run, out=path, cache=arguments.out.parent / ".nngcd-cache", is_quiet=True)
    found: dict[str, Any] = read_json(run.summary)
    return found


def row(method: str, summaries: list[dict[str, Any]]) -> str:
    """Return one line of the table: mean ± deviation over the seeds."""
    scores = [summary["scores"] for summary in summaries]
    columns = [[score["accuracy"][part] for score in scores] for part in ("all", "old", "new")]
    columns.append([score["nmi"] for score in scores])
    cells = [f"{mean(c):.1f} ± {stdev(c):.1f}" if len(c) > 1 else f"{c[0]:.1f}" for c in columns]
    return f"| {method} | {' | '.join(cells)} | {mean(s['seconds'] for s in summaries):.0f} |"


if __name__ == "__main__":
    main()
