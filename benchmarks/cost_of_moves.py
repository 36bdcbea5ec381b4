"""What splits and merges cost: their share of a quick run's training time, and how it grows with the number of images.

python benchmarks/cost_of_moves.py FEATURES.npz --assert
python benchmarks/cost_of_moves.py PATH/TO/CUB_200_2011 --dataset cub --cache runs/.nngcd-cache

Processor time, so that other work on the machine does not count. An .npz holds X (features), y (labels, -1 for
unlabelled) and truth (true classes, old ones first). Growth is measured on made-up images in 200 clusters, 20 of which
have swallowed a category.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F

from frozen_features import data_parser
from measuring import Target
from nngcd import pipeline
from nngcd.clustering.split_and_merge import split_and_merge
from nngcd.core.progress import Progress
from nngcd.methods.splitting import SplittingMethod
from nngcd.runs.preparing import prepare
from nngcd.runs.views import Views
from nngcd.settings import resolve
from split_and_merge import opened

SIZES = (6_000, 12_000, 24_000, 48_000)
N_OLD, N_NEW, N_HIDDEN, N_FEATURES = 100, 100, 20, 256
MOST_SHARE, MOST_GROWTH = 0.10, 1.5


class Clock:
    """Adds up the processor time of the functions it wraps."""

    def __init__(self) -> None:
        self.seconds, self.n_calls = 0.0, 0

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, timed."""

        def timed(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 (as the function)
            started = time.process_time()
            result = function(*arguments, **options)
            self.seconds, self.n_calls = self.seconds + time.process_time() - started, self.n_calls + 1
            return result

        return timed


def main() -> None:
    """Print both, and the targets."""
    parser = data_parser(__doc__)
    parser.add_argument("--labels", type=int, default=None, help="labelled images a class, all by default")
    parser.add_argument("--assert", dest="is_strict", action="store_true", help="exit code 1 if a target is missed")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    targets = [Target("share of training time", share_of_training(arguments), MOST_SHARE)]
    seconds = [seconds_of_search(n) for n in SIZES]
    print("| images | seconds of a search |\n|---|---|")
    for n, took in zip(SIZES, seconds, strict=True):
        print(f"| {n:,} | {took:.2f} |")
    growth = (seconds[-1] / seconds[0]) / (SIZES[-1] / SIZES[0])
    targets.append(Target("growth of a search over that of the images", growth, MOST_GROWTH))
    print("\n".join(map(str, targets)))
    if arguments.is_strict and not all(target.is_met for target in targets):
        raise SystemExit(1)


def share_of_training(arguments: Any) -> float:  # noqa: ANN401 (argparse's)
    """Return which part of the training time of a quick run is spent on searches and on the features they need."""
    split, _ = opened(arguments)
    asked: dict[str, Any] = {"method": "nngcd", "effort": "quick", "k": split.n_classes}
    if not arguments.data.endswith(".npz"):
        asked |= {"data": arguments.data, "dataset": arguments.dataset}
    job, search, plain, training = prepare(split, resolve(asked)), Clock(), Clock(), Clock()
    with (
        patch.object(SplittingMethod, "split_and_merge", search.wrap(SplittingMethod.split_and_merge)),
        patch.object(Views, "with_plain_features", plain.wrap(Views.with_plain_features)),
        patch.object(pipeline, "train", training.wrap(pipeline.train)),
    ):
        pipeline.fit_job(job, run=None, cache=arguments.cache, progress=Progress())
    parts = f"searches {search.seconds:.1f} s ({search.n_calls}), plain features {plain.seconds:.1f} s"
    print(f"{len(split):,} images: {parts}, training {training.seconds:.1f} s")
    return (search.seconds + plain.seconds) / (training.seconds + plain.seconds)


def seconds_of_search(n_images: int) -> float:
    """Return the processor time of one search among made-up images."""
    generator = torch.Generator().manual_seed(0)
    n_classes = N_OLD + N_NEW + N_HIDDEN
    class_n = torch.arange(n_images) % n_classes
    centre_cd = torch.randn(n_classes, N_FEATURES, generator=generator)
    centre_cd[-N_HIDDEN:] = centre_cd[:N_HIDDEN] + 0.7 * torch.randn(N_HIDDEN, N_FEATURES, generator=generator)
    unit_nd = F.normalize(centre_cd[class_n] + torch.randn(n_images, N_FEATURES, generator=generator), dim=-1)
    cluster_n = torch.where(class_n >= N_OLD + N_NEW, class_n - N_OLD - N_NEW, class_n)
    is_labelled_n = (class_n < N_OLD) & (torch.rand(n_images, generator=generator) < 0.5)
    labels_n = torch.where(is_labelled_n, class_n, -1)
    # One new category in two clusters for each that hides: there are merges to be had.
    half_n = (class_n >= N_OLD) & (class_n < N_OLD + N_HIDDEN) & (torch.rand(n_images, generator=generator) < 0.5)
    cluster_n = torch.where(half_n, cluster_n + N_NEW, cluster_n)
    started = time.process_time()
    moved = split_and_merge(
        unit_nd, unit_nd, cluster_n, labels_n, n_old=N_OLD, n_clusters=N_OLD + N_NEW + N_HIDDEN, level=0.2
    )
    assert moved.splits, "there is something to be found"
    return time.process_time() - started


if __name__ == "__main__":
    main()
