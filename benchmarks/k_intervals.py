"""Measure how often the interval of `estimate_k` holds the true number of classes, and how far off the number is.

Tasks are drawn from data whose classes are all known: 10 to 200 classes, 5 to 100 % of them known, a half or a fifth of
the images of a known class labelled, classes of one size or from one to ten times as large. Constants were chosen on
CUB's classes of even number and the digits; everything else confirms them. Where fewer than five classes are known,
`estimate_k` falls back to the silhouette; those tasks are counted apart.

python benchmarks/k_intervals.py --cub PATH/TO/cub --cifar10 PATH/TO/package --cache runs/.nngcd-cache --assert
python benchmarks/k_intervals.py --cub PATH/TO/cub --cifar10 PATH/TO/package --cache runs/.nngcd-cache --as estimate-k
python benchmarks/k_intervals.py --cub PATH/TO/cub --cifar10 PATH/TO/package --cache runs/.nngcd-cache --as run

`--as run` fits each task and takes the number that the run ends with, after splits and merges.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterator
from statistics import mean, median
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from nngcd.core.progress import Progress
from nngcd.counting.estimate_k import KEstimate, estimate_k
from nngcd.datasets.arrays import from_arrays
from nngcd.datasets.opening import open_dataset
from nngcd.pipeline import fit_job
from nngcd.runs.preparing import prepare
from nngcd.runs.views import Views
from nngcd.settings import resolve
from open_tasks import OpenTask, Pool, add_pools, draw_task, open_pools

KNOWN = (0.05, 0.25, 0.5, 0.75, 1.0)
SIZES = (10, 20, 50, 100)
TABLES = {"wine": load_wine, "iris": load_iris, "breast cancer": load_breast_cancer, "digits, pixels": load_digits}
"""scikit-learn's data that are features, not images."""
CHOSEN_ON = ("CUB, even classes", "digits")
ENOUGH = 0.8


class Outcome(NamedTuple):
    """A task and what was estimated."""

    kind: str
    task: OpenTask
    is_long_tailed: bool
    found: KEstimate

    @property
    def is_inside(self) -> bool:
        """Whether the interval holds the truth."""
        return self.found.low <= self.task.k <= self.found.high

    @property
    def error(self) -> float:
        """By how much the number is off, in units of the truth."""
        return self.found.k / self.task.k - 1

    @property
    def known(self) -> str:
        """About which share of the classes is known."""
        share = self.task.truth.n_old / self.task.k
        return f"{min(KNOWN, key=lambda known: abs(known - share)):.0%}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_pools(parser)
    parser.add_argument("--folder", help="one more pool: a folder of images with one folder per class")
    parser.add_argument(
        "--as", dest="way", choices=["fit", "estimate-k", "run"], default="fit", help="whose number to take"
    )
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", default="", help="only pools with this in their name, for example odd")
    parser.add_argument("--every", action="store_true", help="print every task as well")
    parser.add_argument("--assert", dest="must_hold", action="store_true")
    arguments = parser.parse_args()
    outcomes = []
    for kind, pool in feature_pools(arguments):
        if arguments.only not in kind:
            continue
        for task, is_long_tailed in draw_tasks(kind, pool, arguments.seeds):
            found = (final_number if arguments.way == "run" else estimate)(task)
            outcomes.append(Outcome(kind, task, is_long_tailed, found))
            if arguments.every:
                print(_line(outcomes[-1]), flush=True)
    confirming = print_tables(outcomes)
    if arguments.must_hold:
        check(confirming)


def estimate(task: OpenTask) -> KEstimate:
    """Return the estimate of a task."""
    assert task.split.features_nvd is not None
    return estimate_k(task.split.features_nvd[:, 0], task.split.labels)


def final_number(task: OpenTask) -> KEstimate:
    """Fit a task and return the estimate with the number that the run ends with."""
    job = prepare(task.split, resolve({"data": task.name, "k": "auto", "workers": 0}))
    fitted = fit_job(job, run=None, cache=None, progress=Progress())
    assert fitted.k_estimate is not None, "K is not given"
    return dataclasses.replace(fitted.k_estimate, k=fitted.scores_nk.shape[1])


def feature_pools(arguments: argparse.Namespace) -> Iterator[tuple[str, Pool]]:
    """Yield pools of features by name; CUB in two halves, so that one can confirm what was chosen on the other."""
    pools = open_pools(arguments)
    if arguments.folder:
        split, _ = open_dataset(arguments.folder)
        pools["folder"] = Pool(split, split.labels)
    for name, pool in pools.items():
        images = dataclasses.replace(pool.split, n_classes=None, labels=np.full(len(pool.split), -1), class_names=())
        features = _features(images, arguments)
        if name != "cub":
            yield name, Pool(from_arrays(features), pool.class_n)
            continue
        for word, rest in (("even", 0), ("odd", 1)):
            is_here = pool.class_n % 2 == rest
            yield f"CUB, {word} classes", Pool(from_arrays(features[is_here]), pool.class_n[is_here] // 2)
        yield "CUB, all classes", Pool(from_arrays(features), pool.class_n)
    for name, load in TABLES.items():
        features, classes = load(return_X_y=True)
        scaled = (features - features.mean(0)) / np.maximum(features.std(0), 1e-9)
        yield name, Pool(from_arrays(scaled.astype(np.float32)), classes.astype(np.int64))


def _features(images, arguments: argparse.Namespace):  # noqa: ANN001, ANN202 (a Split, an array)
    """Return the features that the command would estimate K from: of three sizes in `fit`, of one in `estimate-k`."""
    settings = resolve({"data": str(arguments.cub or "digits"), "k": "auto", "hold_back": 0.0})
    if arguments.way == "estimate-k":
        views = dataclasses.replace(settings.views, sizes=(1.0,), per_image=settings.views.per_image or 1)
        settings = dataclasses.replace(settings, views=views)
    job = prepare(images, settings, only_centre=arguments.way == "estimate-k")
    return Views.of(job, cache=arguments.cache, progress=Progress()).centre_features().numpy()


def draw_tasks(kind: str, pool: Pool, n_seeds: int) -> Iterator[tuple[OpenTask, bool]]:
    """Yield the tasks of a pool and whether they are long-tailed; at least two classes are known."""
    sizes = [n for n in SIZES if n < pool.n_classes] + [pool.n_classes]
    for n_classes in sizes if kind != "CUB, all classes" else [pool.n_classes]:
        for n_old in sorted({round(known * n_classes) for known in KNOWN} - {0, 1}):
            for share in (0.5, 0.2):
                for tail_ratio in (1.0, 10.0):
                    for seed in range(n_seeds):
                        facts = {"n_classes": n_classes, "n_old": n_old, "labelled_share": share, "seed": seed}
                        yield draw_task(kind, pool, tail_ratio=tail_ratio, **facts), tail_ratio > 1


def print_tables(outcomes: list[Outcome]) -> list[Outcome]:
    """Print what was chosen on, what confirms it and the fall-backs; return the outcomes that confirm."""
    pairs = [one for one in outcomes if one.found.method == "pairs"]
    chosen, confirming = ([one for one in pairs if (one.kind in CHOSEN_ON) == is_in] for is_in in (True, False))
    _table("Constants were chosen on", chosen, {"kind": lambda one: one.kind})
    groups: dict[str, Callable[[Outcome], str]] = {
        "kind": lambda one: one.kind,
        "classes": lambda one: f"{one.task.k:3d} classes",
        "known": lambda one: f"{one.known:>4} known",
        "sizes": lambda one: "long-tailed" if one.is_long_tailed else "balanced",
        "confidence": lambda one: f"confidence {one.found.confidence}",
    }
    _table("Confirmed on", confirming, groups)
    _table("Fewer than five classes known", [one for one in outcomes if one.found.method != "pairs"], {})
    return confirming


def _table(title: str, outcomes: list[Outcome], groups: dict[str, Callable[[Outcome], str]]) -> None:
    if not outcomes:
        return
    print(f"\n| {title} | tasks | inside | mean error | bias | half width |\n|---|---|---|---|---|---|")
    _row("all", outcomes)
    for key in groups.values():
        for name in sorted({key(one) for one in outcomes}):
            _row(name, [one for one in outcomes if key(one) == name])


def _row(name: str, outcomes: list[Outcome]) -> None:
    inside, error = mean(one.is_inside for one in outcomes), mean(abs(one.error) for one in outcomes)
    width = median((one.found.high - one.found.low) / (2 * one.found.k) for one in outcomes)
    bias = mean(one.error for one in outcomes)
    print(f"| {name} | {len(outcomes)} | {inside:.0%} | {error:.1%} | {bias:+.1%} | {width:.0%} |", flush=True)


def _line(one: Outcome) -> str:
    found, mark = one.found, "" if one.is_inside else "  missed"
    return f"{one.task.name}: {found.k} ({found.low} to {found.high}), {found.method}, {found.confidence}{mark}"


def check(outcomes: list[Outcome]) -> None:
    """Raise `SystemExit` unless the intervals hold what is said of them, in all tasks and for each word."""
    for word in ("", "good", "fair", "low"):
        inside = [one.is_inside for one in outcomes if not word or one.found.confidence == word]
        if inside and mean(inside) < ENOUGH:
            raise SystemExit(f"intervals {word or 'of all tasks'}: {mean(inside):.0%} inside, less than {ENOUGH:.0%}")


if __name__ == "__main__":
    main()
