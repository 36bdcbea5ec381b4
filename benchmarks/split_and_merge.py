"""What splits and merges gain: score, names and time with each part of the search on or off, on real or hidden classes.

python benchmarks/split_and_merge.py PATH/TO/CUB_200_2011 --dataset cub --cache runs/.nngcd-cache --seeds 0 1 2
python benchmarks/split_and_merge.py PATH/TO/CUB_200_2011 --dataset cub --cache runs/.nngcd-cache --folds 0 1 2 3
python benchmarks/split_and_merge.py FEATURES.npz --seeds 0 1 2 --ways off default

An .npz holds X (features), y (labels, -1 for unlabelled) and truth (true classes, old ones first).
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from frozen_features import data_parser
from nngcd.clustering import hidden_parts, split_and_merge
from nngcd.datasets import open_dataset
from nngcd.datasets.arrays import from_arrays
from nngcd.datasets.hiding import hide_classes
from nngcd.datasets.sampling import fewer_labels
from nngcd.datasets.split import Split, Truth
from nngcd.pipeline import fit
from nngcd.scoring import score
from nngcd.settings import resolve

HIDDEN_TRAINING = {"epochs": 60, "batch_size": 64}
"""With a quarter of the images, these make as many steps as the real task does in effort quick."""
WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "off": ({"split_epochs": 0}, {}),
    "default": ({}, {}),
    "once, halfway": ({"split_epochs": 16}, {}),
    "once, before the last epoch": ({"split_epochs": 29}, {}),
    "every epoch": ({"split_epochs": 1}, {}),
    "every 10 epochs": ({"split_epochs": 10}, {}),
    "level 0.05": ({"split_level": 0.05}, {}),
    "level 0.5": ({"split_level": 0.5}, {}),
    "without plain features": ({}, {"PLAIN_LEVEL": 1.1}),
    "a split gains a quarter of its merge's cost": ({}, {"LEAST_GAIN": 0.25}),
    "a split gains what its merge costs": ({}, {"LEAST_GAIN": 1.0}),
    "whatever the merge costs": ({}, {"LEAST_GAIN": 0.0}),
}
"""Settings of the loss, and constants of the search that are no settings."""


@contextmanager
def changed(constants: dict[str, Any]) -> Iterator[None]:
    """Search with other constants."""
    plain = constants.get("PLAIN_LEVEL", hidden_parts.PLAIN_LEVEL)
    gain = constants.get("LEAST_GAIN", split_and_merge.LEAST_GAIN)
    with patch.object(hidden_parts, "PLAIN_LEVEL", plain), patch.object(split_and_merge, "LEAST_GAIN", gain):
        yield


def opened(arguments: argparse.Namespace) -> tuple[Split, Truth]:
    """Return the data with their truth, and as few labels a class as are asked for."""
    if arguments.data.endswith(".npz"):
        file = np.load(arguments.data)
        split = from_arrays(file["X"], file["y"])
        n_old, n_classes = int(file["y"].max()) + 1, int(file["truth"].max()) + 1
        split = dataclasses.replace(split, n_classes=n_classes)
        truth = Truth(classes=file["truth"], class_names=tuple(map(str, range(n_classes))), n_old=n_old)
    else:
        split, found = open_dataset(arguments.data, dataset=arguments.dataset)
        if found is None:
            raise SystemExit(f"{arguments.data} has no truth to score with")
        truth = found
    return (fewer_labels(split, arguments.labels) if arguments.labels else split), truth


def settings_of(arguments: argparse.Namespace, way: str, *, seed: int, is_hidden: bool) -> dict[str, Any]:
    """Return the settings of a run; epochs between searches count double in a task of hidden classes."""
    loss = dict(WAYS[way][0])
    asked: dict[str, Any] = {"method": arguments.method, "effort": "quick", "seed": seed}
    if not arguments.data.endswith(".npz"):
        asked |= {"data": arguments.data, "dataset": arguments.dataset}
    if is_hidden:
        loss["split_epochs"] = 2 * loss.get("split_epochs", resolve(asked | {"k": 2}).loss.split_epochs)
        asked["training"] = HIDDEN_TRAINING
    return asked | {"loss": loss}


def measure(split: Split, truth: Truth, settings: dict[str, Any], way: str, cache: Path | None) -> list[float]:
    """Return All, Old and New, the same by name, the share called known, the number of splits, and seconds."""
    started = time.perf_counter()
    with changed(WAYS[way][1]):
        fitted = fit(split, resolve(settings | {"k": split.n_classes}), cache=cache)
    seconds = time.perf_counter() - started
    scored = ~split.is_labelled
    found = score(truth.classes[scored], fitted.scores_nk.argmax(-1).numpy()[scored], truth.n_old)
    accuracies = [found[name][part] for name in ("accuracy", "by_name") for part in ("all", "old", "new")]
    return [*accuracies, found["called_known"]["share"], len(fitted.model.method.known_splits()), seconds]


def main() -> None:
    """Print a row per way: means over seeds or folds."""
    parser = data_parser(__doc__)
    parser.add_argument("--method", default="nngcd")
    parser.add_argument("--seeds", type=int, nargs="*", default=[], help="runs on the real task")
    parser.add_argument("--folds", type=int, nargs="*", default=[], help="tasks of hidden classes")
    parser.add_argument("--labels", type=int, help="labelled images a class, all by default")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS))
    arguments = parser.parse_args()
    split, truth = opened(arguments)
    print("| way | All/Old/New | by name | called known | splits | seconds | All of each |")
    print("|---|---|---|---|---|---|---|")
    for way in arguments.ways:
        rows = [
            measure(split, truth, settings_of(arguments, way, seed=seed, is_hidden=False), way, arguments.cache)
            for seed in arguments.seeds
        ]
        for fold in arguments.folds:
            settings = settings_of(arguments, way, seed=0, is_hidden=True)
            rows.append(measure(*hide_classes(split, 0.5, fold=fold), settings, way, arguments.cache))
        mean = np.mean(rows, axis=0)
        parts = ["/".join(f"{x:.1f}" for x in mean[:3]), "/".join(f"{x:.1f}" for x in mean[3:6]), f"{mean[6]:.1f}"]
        each = ", ".join(f"{row[0]:.1f}" for row in rows)
        print("| " + " | ".join([way, *parts, f"{mean[7]:.0f}", f"{mean[8]:.0f}", each]) + " |", flush=True)


if __name__ == "__main__":
    main()
