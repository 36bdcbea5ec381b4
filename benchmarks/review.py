"""A simulated reviewer who knows the truth: accuracy against the number of decisions, for three orders of images.

nngcd fit digits --out runs/digits
nngcd fit PATH/TO/cub --dataset cub --backbone efficientnet_lite0 --effort quick --out runs/cub
python benchmarks/review.py runs/digits runs/cub            # in the order of the review page, least confident, random
python benchmarks/review.py runs/cub --learn                # and after `nngcd fit --from-review`
python benchmarks/review.py runs/cub --assert               # exit code 1 if ours gains less than twice the random one

A decision is one image that is shown and put where it belongs: into the category of its name or, of a new class, into
the category that has more images of it than of any other, or into a category of its own. The reviewed run is a copy.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from measuring import Target
from nngcd.core.run_folder import RunFolder
from nngcd.core.run_reading import read_config, read_results
from nngcd.core.seeds import numpy_generator
from nngcd.results.images import reopened
from nngcd.results.scoring import score
from nngcd.review.page.desk import Desk
from nngcd.review.page.listing import next_rows

STEPS = (50, 100, 200, 300)
N_SEEDS = 5
TIMES_RANDOM = 2.0
PARTS = ("all", "old", "new")
Order = Callable[[Desk, int], int]


class Reviewer:
    """A person who knows every image of a run, at a copy of that run.

    Args:
        run: the copy.
    """

    def __init__(self, run: RunFolder) -> None:
        self.desk = Desk(run)
        split, truth = reopened(read_config(run))
        if truth is None:
            sys.exit(f"{run.path}: the truth of these data is not known")
        class_of = dict(zip(split.table["image_id"], truth.classes, strict=True))
        self.class_n = np.array([class_of[image] for image in self.desk.index.ids], dtype=np.int64)
        self.n_old, self.class_names = truth.n_old, list(split.class_names)
        self._made: dict[int, str] = {}

    def decide(self, row: int) -> None:
        """Put an image where it belongs."""
        class_, image = int(self.class_n[row]), self.desk.index.ids[row]
        with self.desk.editing(self.desk.version) as review:
            made = review.move([image], to=self._home(class_))
        if class_ >= self.n_old:
            self._made.setdefault(class_, made)

    def _home(self, class_: int) -> str | None:
        """Return the category of a class as a person sees it; None where there is none yet."""
        if class_ < self.n_old:
            return self.class_names[class_]
        sizes = np.bincount(self.desk.index.category_n[(self.class_n == class_) & (self.desk.index.category_n >= 0)])
        names = list(self.desk.index.numbers)
        for number in np.argsort(-sizes, kind="stable").tolist():
            rows = self.desk.index.rows(names[number])
            is_new = self.desk.review.state.categories[names[number]].kind == "new"
            if sizes[number] and is_new and np.bincount(self.class_n[rows]).argmax() == class_:
                return names[number]
        return self._made.get(class_)

    def accuracy(self) -> dict[str, float]:
        """Return the accuracy of the images that were not labelled."""
        return accuracy(self, self.desk.index.category_n, list(self.desk.index.numbers))


def accuracy(reviewer: Reviewer, category_n: NDArray[np.int64], names: list[str]) -> dict[str, float]:
    """Return the accuracy of a sorting: category k < n_old must be the category of old class k."""
    number = {name: at for at, name in enumerate(dict.fromkeys([*reviewer.class_names[: reviewer.n_old], *names]))}
    cluster_n = np.array([*(number[name] for name in names), len(number)])[category_n]
    is_open_n = ~reviewer.desk.is_labelled_n
    found: dict[str, float] = score(reviewer.class_n[is_open_n], cluster_n[is_open_n], reviewer.n_old)["accuracy"]
    return found


def undecided(desk: Desk) -> NDArray[np.int64]:
    """Return the images that can be asked about."""
    return np.flatnonzero(~desk.is_labelled_n & ~desk.index.is_decided_n)


def our_order(desk: Desk, seed: int) -> int:
    """Return the row that the page asks about next."""
    return int(next_rows(desk)[0])


def least_confident(desk: Desk, seed: int) -> int:
    """Return the row with the least confidence."""
    rows = undecided(desk)
    return int(rows[np.nanargmin(desk.confidence_n[rows])])


def random_order(desk: Desk, seed: int) -> int:
    """Return any row."""
    return int(numpy_generator(seed, "random order", desk.version).choice(undecided(desk)))


ORDERS: dict[str, tuple[Order, int]] = {
    "the page's order": (our_order, 1),
    "least confident first": (least_confident, 1),
    f"random ({N_SEEDS} seeds)": (random_order, N_SEEDS),
}


def review(run: RunFolder, order: Order, seed: int, n_decisions: int) -> list[dict[str, float]]:
    """Return the accuracy at the start and after each number of decisions."""
    reviewer = Reviewer(run)
    found = [reviewer.accuracy()]
    for n in range(1, n_decisions + 1):
        reviewer.decide(order(reviewer.desk, seed))
        if n in STEPS:
            found.append(reviewer.accuracy())
    return found


def learned(run: RunFolder) -> dict[str, float]:
    """Return the accuracy of a new run that learned from a review, on the images that the first run had no label of."""
    out = run.path.with_name("learned")
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-m", "nngcd", "fit", "--from-review", str(run.path), "--out", str(out), "-q"]
    subprocess.run(command, check=True)
    reviewer, results = Reviewer(run), read_results(RunFolder(out))
    category = results.set_index("image_id")["category"].reindex(reviewer.desk.index.ids)
    codes, names = pd.factorize(category)
    return accuracy(reviewer, codes.astype(np.int64), [str(name) for name in names])


def measure(source: Path, asked: argparse.Namespace) -> float:
    """Print the table of a run; return how many times the gain of the random order ours is."""
    gains = {}
    print(f"\n{source}\n{'':<24}" + "".join(f"{n:>16}" for n in (0, *STEPS)) + f"{'gain':>8}")
    for name, (order, n_seeds) in ORDERS.items():
        runs = []
        for seed in range(n_seeds):
            with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
                run = RunFolder(Path(folder) / "run")
                shutil.copytree(source, run.path, ignore=shutil.ignore_patterns("review", "report.html"))
                runs.append(review(run, order, seed, STEPS[-1]))
                if asked.learn and seed == 0:
                    after = learned(run)
        table = [{part: mean(one[step][part] for one in runs) for part in PARTS} for step in range(len(STEPS) + 1)]
        gains[name] = table[-1]["all"] - table[0]["all"]
        cells = "".join(f"{_words(one):>16}" for one in table)
        print(
            f"{name:<24}{cells}{gains[name]:>8.2f}" + (f"   learned {_words(after)}" if asked.learn else ""), flush=True
        )
    ours, _, at_random = gains.values()
    return ours / at_random


def _words(accuracy_: dict[str, Any]) -> str:
    return " ".join(f"{accuracy_[part]:.1f}" for part in PARTS)


def main() -> None:
    """Measure every run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="finished runs on data whose truth is known")
    parser.add_argument("--learn", action="store_true", help="train a new run after the last decision (the first seed)")
    parser.add_argument("--folder", type=Path, help="where copies of the run go; a temporary folder by default")
    parser.add_argument("--assert", dest="is_strict", action="store_true", help="exit code 1 if a target is missed")
    asked = parser.parse_args()
    print("accuracy (all old new, per cent) after so many decisions, and the gain of 'all' after the last")
    targets = [Target(f"{run}: our gain / random gain", measure(run, asked), TIMES_RANDOM, True) for run in asked.runs]
    print("\n" + "\n".join(map(str, targets)))
    if asked.is_strict and not all(target.is_met for target in targets):
        sys.exit(1)


if __name__ == "__main__":
    main()
