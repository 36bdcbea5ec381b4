"""Semi-supervised k-means from published and from matched starts, on frozen features, seed by seed.

python benchmarks/semi_supervised_kmeans.py digits --cache runs/.nngcd-cache
python benchmarks/semi_supervised_kmeans.py ../shared/data/cub --dataset cub --cache runs/.nngcd-cache --starts 1
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import mean

import torch.nn.functional as F

from nngcd.cli.options import seed_range
from nngcd.clustering.semi_supervised_kmeans import SemiSupervisedKMeans
from nngcd.core.progress import Progress
from nngcd.datasets import open_dataset
from nngcd.metrics.accuracy import split_accuracy
from nngcd.pipeline import cached_views, centre_view_features, prepare
from nngcd.settings import resolve


def main() -> None:
    """Print the accuracy of both starts for each seed, with their inertia."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--dataset")
    parser.add_argument("--seeds", default="0-5")
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--cache", type=Path)
    arguments = parser.parse_args()
    split, truth = open_dataset(arguments.data, dataset=arguments.dataset)
    if truth is None or split.n_classes is None:
        parser.error(f"{arguments.data}: the true classes are not known, so nothing can be scored")
    job = prepare(split, resolve({"data": arguments.data, "dataset": arguments.dataset}))
    hidden_nv = cached_views(job, cache=arguments.cache, progress=Progress())
    unit_nd = F.normalize(centre_view_features(job, hidden_nv, Progress()), dim=-1)
    is_free = ~split.is_labelled
    print("| seed | published All | inertia | matched All | inertia |\n|---|---|---|---|---|")
    found: dict[str, list[float]] = {"published": [], "matched": []}
    for seed in seed_range(arguments.seeds):
        cells = []
        for init, accuracies in found.items():
            fitted = SemiSupervisedKMeans(split.n_classes, init=init, n_init=arguments.starts, random_state=seed)  # type: ignore[arg-type]
            cluster = fitted.fit(unit_nd, split.labels).labels_.numpy()[is_free]
            accuracy = split_accuracy(truth.classes[is_free], cluster, truth.is_old[is_free])
            accuracies.append(100 * accuracy.all)
            cells.append(f"{100 * accuracy.all:.1f} | {fitted.inertia_:.2f}")
        print(f"| {seed} | {' | '.join(cells)} |", flush=True)
    print(f"| mean | {mean(found['published']):.1f} | | {mean(found['matched']):.1f} | |")


if __name__ == "__main__":
    main()
