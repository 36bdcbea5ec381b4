"""How well each way of counting categories does: on a data set, and on tasks made of its labelled images alone.

A task hides the labels of two fifths of the labelled classes, and of half of the other labelled images; the right K is
then known without any label of an unlabelled image.

python benchmarks/number_of_categories.py digits --cache runs/.nngcd-cache
python benchmarks/number_of_categories.py ../shared/data/cub --dataset cub --cache runs/.nngcd-cache --tasks 4
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frozen_features import data_parser, frozen_features
from nngcd.counting.estimate_k import checked_method, estimate_k

Array = NDArray[Any]


def main() -> None:
    """Print one line per method."""
    parser = data_parser(__doc__)
    parser.add_argument("--methods", default="pairs,accuracy,hold-out,communities,silhouette")
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    split, _, features_nd = frozen_features(arguments)
    features = features_nd.numpy()
    tasks = list(hidden_class_tasks(features, split.labels, arguments.tasks))
    print("| method | K | interval | seconds | K of the tasks | mean error |\n|---|---|---|---|---|---|")
    for name in arguments.methods.split(","):
        method, started = checked_method(name), time.perf_counter()
        found = estimate_k(features, split.labels, method=method, seed=arguments.seed)
        seconds = time.perf_counter() - started
        ks = [estimate_k(x, y, method=method, seed=arguments.seed).k for x, y in tasks]
        error = mean(abs(k / split.n_old - 1) for k in ks) if ks else float("nan")
        interval, task_ks = f"{found.low} to {found.high}", ", ".join(map(str, ks))
        print(f"| {name} | {found.k} | {interval} | {seconds:.0f} | {task_ks} | {error:.0%} |", flush=True)


def hidden_class_tasks(features: Array, labels: Array, n_tasks: int) -> Iterator[tuple[Array, Array]]:
    """Give tasks of as many classes as are labelled, made of labelled images alone."""
    rng = np.random.default_rng(0)
    x, y = features[labels >= 0], labels[labels >= 0]
    n_classes = int(y.max()) + 1
    for _ in range(n_tasks):
        known = rng.permutation(n_classes)[: -(-3 * n_classes // 5)]
        is_labelled = np.isin(y, known) & (rng.random(len(y)) < 0.5)
        yield x, np.where(is_labelled, y, -1)


if __name__ == "__main__":
    main()
