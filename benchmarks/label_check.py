"""Count how often a run doubts that its labels are a random sample: random ones, and labels picked by hand.

python benchmarks/label_check.py FEATURES.npz --classes even
python benchmarks/label_check.py digits

Tasks are made of some of the classes of the data: half of them known, half of the images of these labelled. What is
tested are the clusters of the first search of NN-GCD, effort quick. An .npz holds X (features) and truth (true
classes). Constants were chosen on CUB's classes of odd number and the digits.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from nngcd.clustering.kmeans import KMeans
from nngcd.clustering.label_check import LabelCheck
from nngcd.core.progress import Progress
from nngcd.core.seeds import numpy_generator
from nngcd.data.split import UNLABELLED
from nngcd.datasets.arrays import from_arrays
from nngcd.methods.splitting import SearchingMethod
from nngcd.pipeline import fit_job
from nngcd.runs.preparing import prepare
from nngcd.settings import resolve

WAYS = {
    "random half": "none",
    "the half nearest to the class mean": "typical",
    "one of two forms (2-means)": "form",
    "four fifths of the labels from one form": "mostly form",
}


class Checked(Exception):  # noqa: N818 (no error: the run has said all that is asked of it)
    """The labels were tested."""


def main() -> None:
    """Print a row per way to choose labelled images and number of classes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="an .npz, or digits")
    parser.add_argument("--classes", choices=("odd", "even", "all"), default="all")
    parser.add_argument("--numbers", type=int, nargs="*", default=[10, 40, 80], help="classes of a task")
    parser.add_argument("--tasks", type=int, default=10, help="tasks of each kind")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    x_nd, truth_n = opened(arguments.data)
    is_used_n = truth_n >= 0 if arguments.classes == "all" else truth_n % 2 == (arguments.classes == "odd")
    x_nd, truth_n = x_nd[is_used_n], truth_n[is_used_n]
    n_most = len(np.unique(truth_n))
    print("| labels | classes | doubted | tested | apart |\n|---|---|---|---|---|")
    for (name, way), n_classes in itertools.product(WAYS.items(), arguments.numbers):
        if n_classes > n_most:
            continue
        found = [check_of(x_nd, truth_n, n_classes, way, seed) for seed in range(arguments.tasks)]
        n_doubted, n_tested, n_apart = (
            sum(one.is_doubtful for one in found), sum(one.n_tested for one in found), sum(one.n_apart for one in found)
        )  # fmt: skip
        apart = f"{n_apart / max(n_tested, 1):.0%}"
        print(f"| {name} | {n_classes} | {n_doubted} of {len(found)} | {n_tested} | {apart} |", flush=True)


def opened(data: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return features and true classes."""
    if data == "digits":
        digits = load_digits()
        return digits.data.astype(np.float32), digits.target.astype(np.int64)
    file = np.load(data)
    return file["X"], file["truth"]


def check_of(x_nd: NDArray[np.float32], truth_n: NDArray[np.int64], n_classes: int, way: str, seed: int) -> LabelCheck:
    """Return what a run says of the labels of one task."""
    rng = numpy_generator(seed, "label check")
    chosen = rng.permutation(np.unique(truth_n))[:n_classes]
    rows = np.flatnonzero(np.isin(truth_n, chosen))
    labels = np.full(len(rows), UNLABELLED)
    for label, one in enumerate(chosen[: n_classes // 2]):
        image_m = np.flatnonzero(truth_n[rows] == one)
        labels[picked(x_nd[rows[image_m]], image_m, way, rng)] = label
    split = dataclasses.replace(from_arrays(x_nd[rows], labels), n_classes=n_classes)
    found: list[LabelCheck] = []
    search = SearchingMethod.search

    def stop_after(method: SearchingMethod, overview: Any) -> None:  # noqa: ANN401 (as the method's)
        search(method, overview)
        check = method.label_check()
        assert check is not None, "a search checks the labels"
        found.append(check)
        raise Checked

    job = prepare(split, resolve({"k": n_classes, "seed": seed, "hold_back": 0}))
    with patch.object(SearchingMethod, "search", stop_after):
        try:
            fit_job(job, run=None, cache=None, progress=Progress())
        except Checked:
            pass
    return found[0]


def picked(
    x_md: NDArray[np.float32], image_m: NDArray[np.int64], way: str, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return which half of the images of a class is labelled."""
    n_labelled, unit_md = len(image_m) // 2, torch.nn.functional.normalize(torch.from_numpy(x_md), dim=-1)
    if way == "none":
        return rng.permutation(image_m)[:n_labelled]
    if way == "typical":
        return image_m[(unit_md - unit_md.mean(0)).norm(dim=-1).argsort()[:n_labelled].numpy()]
    # From one form to the other.
    centre_2d = KMeans(2, n_init=5, random_state=0).fit(unit_md).cluster_centers_
    order_m = image_m[(torch.cdist(unit_md, centre_2d) @ torch.tensor([1.0, -1.0])).argsort().numpy()]
    if way == "form":
        return order_m[:n_labelled]
    n_first = round(0.8 * n_labelled)
    first_m, second_m = rng.permutation(order_m[:n_labelled]), rng.permutation(order_m[n_labelled:])
    return np.concatenate([first_m[:n_first], second_m[: n_labelled - n_first]])


if __name__ == "__main__":
    main()
