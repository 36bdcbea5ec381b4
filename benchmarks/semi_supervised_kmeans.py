"""Semi-supervised k-means from published and from matched starts, on frozen features, seed by seed.

python benchmarks/semi_supervised_kmeans.py digits --cache runs/.nngcd-cache
python benchmarks/semi_supervised_kmeans.py ../shared/data/cub --dataset cub --cache runs/.nngcd-cache --starts 1
"""

from __future__ import annotations

from statistics import mean

import torch.nn.functional as F

from frozen_features import data_parser, frozen_features
from nngcd.cli.shared_options import seed_range
from nngcd.clustering.semi_supervised_kmeans import SemiSupervisedKMeans
from nngcd.metrics.accuracy import split_accuracy


def main() -> None:
    """Print the accuracy of both starts for each seed, with their inertia."""
    parser = data_parser(__doc__)
    parser.add_argument("--seeds", default="0-5")
    parser.add_argument("--starts", type=int, default=10)
    arguments = parser.parse_args()
    split, truth, features_nd = frozen_features(arguments)
    if truth is None or split.n_classes is None:
        parser.error(f"{arguments.data}: the true classes are not known, so nothing can be scored")
    unit_nd = F.normalize(features_nd, dim=-1)
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
