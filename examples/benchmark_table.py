"""Compare two methods on the embedded digits, each with several seeds, in one table.

    python examples/benchmark_table.py              # k-means and NN-GCD, seeds 0 to 2: about two minutes
    python examples/benchmark_table.py --n-seeds 1

Repeat the command after an interrupt: runs that are finished are kept. The same from the shell:
`nngcd bench digits --method kmeans,nngcd --seeds 0-2`.
"""

from __future__ import annotations

from pathlib import Path

import typer

from nngcd.research.benchmark import benchmark


def main(n_seeds: int = 3, n_images: int | None = None, out: Path = Path("runs/bench-digits")) -> None:
    """Run both methods and print accuracy on all, old (known) and new classes."""
    settings = {"reading": {"n_images": n_images}} if n_images else None  # fewer images: quicker, only to try it
    outcome = benchmark("digits", ["kmeans", "nngcd"], seeds=range(n_seeds), settings=settings, out=out)

    print("method", "All", "Old", "New", sep="\t")
    for row in outcome.rows:
        print(*row.cells[:4], sep="\t")
    print(*outcome.gains, sep="\n")  # how much the methods differ, seed by seed
    print("Tables for a paper:", *outcome.files)


if __name__ == "__main__":
    typer.run(main)
