"""Gain from splits and merges: score, names and time with each part of the search on or off, on real or hidden classes.

python benchmarks/split_and_merge.py PATH/TO/CUB_200_2011 --dataset cub --cache runs/.nngcd-cache --seeds 0 1 2
python benchmarks/split_and_merge.py PATH/TO/CUB_200_2011 --dataset cub --cache runs/.nngcd-cache --folds 0 1 2 3
python benchmarks/split_and_merge.py FEATURES.npz --seeds 0 1 2 --ways off default

An .npz holds X (features), y (labels, -1 for unlabelled) and truth (true classes, old ones first).
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as F

from frozen_features import data_parser
from nngcd.clustering import hidden_parts, split_and_merge
from nngcd.clustering.whitening import main_directions
from nngcd.core.config import merge, parse_assignments
from nngcd.core.progress import Progress
from nngcd.data.hiding import hide_classes
from nngcd.data.sampling import fewer_labels
from nngcd.data.split import Split, Truth
from nngcd.datasets.arrays import from_arrays
from nngcd.datasets.opening import open_dataset
from nngcd.pipeline import fit_job
from nngcd.results.result_tables import Fitted
from nngcd.results.scoring import score
from nngcd.runs.preparing import Job, prepare
from nngcd.runs.views import Views
from nngcd.settings import resolve

HIDDEN_TRAINING = {"epochs": 60, "batch_size": 64}
"""With a quarter of the images, these make as many steps as the real task does in effort quick."""


NOTHING: Mapping[str, Any] = MappingProxyType({})


class Way(NamedTuple):
    """How to search."""

    loss: Mapping[str, Any] = NOTHING
    """Settings."""
    constants: Mapping[str, float] = NOTHING
    """What is no setting."""
    k_range: Callable[[int, int], tuple[int, int]] | None = None
    """Fewest and most clusters there may be, of K and the number of known ones; None: K of them."""
    is_after_training: bool = False
    """Whether to search once, when training is over."""


OFF = {"split_epochs": 0, "split_at_end": False}
"""A method has one of the two, or both."""
WAYS = {
    "off": Way(OFF),
    "default": Way(),
    "split only": Way({}, {"MOST_APART": 0.0}, lambda k, n_old: (k, 2 * k)),
    "merge only": Way({"split_level": 0.0}, {}, lambda k, n_old: (n_old, k)),
    "both, K free": Way({}, {}, lambda k, n_old: (n_old, 2 * k)),
    "after training": Way(OFF, is_after_training=True),
    "between epochs and after training": Way(is_after_training=True),
    "once, halfway": Way({"split_epochs": 16}),
    "once, before the last epoch": Way({"split_epochs": 29}),
    "every epoch": Way({"split_epochs": 1}),
    "every 2 epochs": Way({"split_epochs": 2}),
    "every 3 epochs": Way({"split_epochs": 3}),
    "every 10 epochs": Way({"split_epochs": 10}),
    "level 0.001": Way({"split_level": 0.001}),
    "level 0.01": Way({"split_level": 0.01}),
    "level 0.05": Way({"split_level": 0.05}),
    "level 0.2": Way({"split_level": 0.2}),
    "level 0.5": Way({"split_level": 0.5}),
    "without plain features": Way({}, {"PLAIN_LEVEL": 1.1}),
    "a split gains a quarter of its merge's cost": Way({}, {"LEAST_GAIN": 0.25}),
    "a split gains what its merge costs": Way({}, {"LEAST_GAIN": 1.0}),
    "whatever the merge costs": Way({}, {"LEAST_GAIN": 0.0}),
}


@contextmanager
def changed(way: Way, split: Split) -> Iterator[None]:
    """Search another way."""
    with ExitStack() as stack:
        for name, value in way.constants.items():
            module = hidden_parts if hasattr(hidden_parts, name) else split_and_merge
            stack.enter_context(patch.object(module, name, value))
        if way.k_range and split.n_classes:
            k_range = way.k_range(split.n_classes, split.n_old)
            stack.enter_context(patch("nngcd.pipeline.moves_range", lambda estimate: k_range))
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
    asked: dict[str, Any] = {"method": arguments.method, "effort": "quick", "seed": seed}
    if not arguments.data.endswith(".npz"):
        asked |= {"data": arguments.data, "dataset": arguments.dataset}
    usual = dataclasses.asdict(resolve(asked | {"k": 2}).loss)
    loss = {name: value for name, value in WAYS[way].loss.items() if name in usual}
    if is_hidden:
        asked["training"] = HIDDEN_TRAINING
        if "split_epochs" in usual:
            loss["split_epochs"] = 2 * (usual | loss)["split_epochs"]
    return merge(asked | {"loss": loss}, parse_assignments(arguments.set))


def measure(split: Split, truth: Truth, settings: dict[str, Any], way: Way, cache: Path | None) -> list[float]:
    """Return All, Old and New, the same by name, the share called known, splits, clusters, and seconds."""
    started = time.perf_counter()
    job = prepare(split, resolve(settings | {"k": split.n_classes}))
    with changed(way, split):
        fitted = fit_job(job, run=None, cache=cache, progress=Progress())
        cluster_n, n_splits = fitted.scores_nk.argmax(-1), len(fitted.model.method.known_splits())
        if way.is_after_training:
            moved = moved_after_training(job, fitted, cache)
            cluster_n, n_splits = moved.cluster_n, n_splits + len(moved.splits)
    seconds, scored = time.perf_counter() - started, ~split.is_labelled
    found = score(truth.classes[scored], cluster_n.numpy()[scored], truth.n_old)
    accuracies = [found[name][part] for name in ("accuracy", "by_name") for part in ("all", "old", "new")]
    return [*accuracies, found["called_known"]["share"], n_splits, fitted.scores_nk.shape[1], seconds]


def moved_after_training(job: Job, fitted: Fitted, cache: Path | None) -> split_and_merge.Moved:
    """Search the clusters of any method once, when training is over."""
    features_nd = Views.of(job, cache=cache, progress=Progress()).centre_features()
    return split_and_merge.split_and_merge(
        F.normalize(fitted.features_nd, dim=-1),
        F.normalize(main_directions(features_nd), dim=-1).float(),
        fitted.scores_nk.argmax(-1),
        torch.from_numpy(job.split.labels),
        n_old=job.split.n_old,
        n_clusters=fitted.scores_nk.shape[1],
        level=getattr(job.settings.loss, "split_level", 0.2),
    )


def main() -> None:
    """Print a row per way: means over seeds or folds."""
    parser = data_parser(__doc__)
    parser.add_argument("--method", default="nngcd")
    parser.add_argument("--seeds", type=int, nargs="*", default=[], help="runs on the real task")
    parser.add_argument("--folds", type=int, nargs="*", default=[], help="tasks of hidden classes")
    parser.add_argument("--labels", type=int, help="labelled images a class, all by default")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="another setting, as of fit")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS))
    arguments = parser.parse_args()
    split, truth = opened(arguments)
    print("| way | All/Old/New | by name | called known | splits | clusters | seconds | All of each |")
    print("|---|---|---|---|---|---|---|---|")
    for way in arguments.ways:
        rows = [
            measure(split, truth, settings_of(arguments, way, seed=seed, is_hidden=False), WAYS[way], arguments.cache)
            for seed in arguments.seeds
        ]
        for fold in arguments.folds:
            settings = settings_of(arguments, way, seed=0, is_hidden=True)
            rows.append(measure(*hide_classes(split, 0.5, fold=fold), settings, WAYS[way], arguments.cache))
        mean = np.mean(rows, axis=0)
        parts = ["/".join(f"{x:.1f}" for x in mean[:3]), "/".join(f"{x:.1f}" for x in mean[3:6]), f"{mean[6]:.1f}"]
        each = ", ".join(f"{row[0]:.1f}" for row in rows)
        print("| " + " | ".join([way, *parts, *(f"{x:.0f}" for x in mean[7:]), each]) + " |", flush=True)


if __name__ == "__main__":
    main()
