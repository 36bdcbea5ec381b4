"""How far off the number of categories is: the estimate, and the number that a run ends with after splits and merges.

Tasks are those of `open_world.py`: 20 subsets of CUB, K unknown, some labels held back. `--development` takes tasks of
other classes; constants are chosen on those.

python benchmarks/number_after_moves.py --cub PATH/TO/cub --cache runs/.nngcd-cache
python benchmarks/number_after_moves.py --features FEATURES.npz

An .npz holds X (features) and truth (true classes).
"""

from __future__ import annotations

import argparse
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import torch

from nngcd.clustering import split_and_merge
from nngcd.core.errors import NngcdWarning
from nngcd.core.progress import Progress
from nngcd.datasets.arrays import from_arrays
from nngcd.pipeline import fit_job
from nngcd.results.scoring import score
from nngcd.runs.preparing import prepare
from nngcd.settings import resolve
from open_tasks import OpenTask, Pool, add_pools, open_pools
from open_world import development_tasks, measured_tasks


class Outcome(NamedTuple):
    """A finished task."""

    name: str
    k: int
    estimate: int
    low: int
    high: int
    final: int
    n_splits: int
    n_merges: int
    accuracy: float
    by_name: float

    def error(self, found: int) -> float:
        """Return by how much a number is off, in units of the truth."""
        return found / self.k - 1

    def __str__(self) -> str:
        cells = [self.name, self.k, f"{self.estimate} ({self.low} to {self.high})", self.final, self.n_splits]
        return "| " + " | ".join(map(str, [*cells, self.n_merges, self.accuracy, self.by_name])) + " |"


def main() -> None:
    """Print a row per task, and the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_pools(parser)
    parser.add_argument("--features", type=Path, help="an .npz with the features of CUB, instead of its images")
    parser.add_argument("--development", action="store_true", help="tasks of the classes that constants are chosen on")
    parser.add_argument("--kept", action="store_true", help="keep the estimated number, for comparison")
    parser.add_argument("--method", default="nngcd")
    parser.add_argument("--only", default="", help="only tasks whose name begins so")
    parser.add_argument("--most-apart", type=float, default=split_and_merge.MOST_APART)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", NngcdWarning)
    torch.set_num_threads(1)
    pools = {"cub": feature_pool(arguments.features)} if arguments.features else open_pools(arguments)
    draw = development_tasks if arguments.development else measured_tasks
    tasks = [task for task in draw(pools) if task.name.startswith(arguments.only)]
    print("| task | K | estimate | final | splits | merges | All | by name |\n|---|---|---|---|---|---|---|---|")
    outcomes = []
    with patch.object(split_and_merge, "MOST_APART", arguments.most_apart):
        for task in tasks:
            outcomes.append(outcome_of(task, arguments))
            print(outcomes[-1], flush=True)
    show(outcomes)


def feature_pool(path: Path) -> Pool:
    """Return a pool of features."""
    file = np.load(path)
    return Pool(from_arrays(file["X"], name="cub"), file["truth"])


def outcome_of(task: OpenTask, arguments: argparse.Namespace) -> Outcome:
    """Fit a task whose number of categories is not known."""
    settings = resolve({"data": task.name, "method": arguments.method, "k": "auto", "workers": 1})
    with patch("nngcd.pipeline.moves_range", lambda *_: None) if arguments.kept else nullcontext():
        fitted = fit_job(prepare(task.split, settings), run=None, cache=arguments.cache, progress=Progress())
    estimate, method, scored = fitted.k_estimate, fitted.model.method, ~task.split.is_labelled
    assert estimate is not None, "K is not given"
    found = score(task.truth.classes[scored], fitted.scores_nk.argmax(-1).numpy()[scored], task.truth.n_old)
    return Outcome(
        task.name, task.k, estimate.k, estimate.low, estimate.high, fitted.scores_nk.shape[1],
        len(method.known_splits()) + len(method.new_splits()), len(method.cluster_merges()),
        round(found["accuracy"]["all"], 1), round(found["by_name"]["all"], 1),
    )  # fmt: skip


def show(outcomes: list[Outcome]) -> None:
    """Print the mean error of both numbers."""
    for name in ("estimate", "final"):
        errors = np.array([one.error(getattr(one, name)) for one in outcomes])
        print(f"{name}: mean error {np.abs(errors).mean():.1%}, bias {errors.mean():+.1%}")
    nearer = [abs(one.error(one.estimate)) - abs(one.error(one.final)) for one in outcomes]
    print(f"nearer in {sum(gain > 0 for gain in nearer)} tasks, further off in {sum(gain < 0 for gain in nearer)}")
    print(f"All {np.mean([one.accuracy for one in outcomes]):.1f}, by name "
          f"{np.mean([one.by_name for one in outcomes]):.1f}")  # fmt: skip


if __name__ == "__main__":
    main()
