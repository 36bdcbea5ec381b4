"""Is the result of a run better when it is looked at once more? Ways that need neither labels of unlabelled images nor
training, each for every run and on average. The truth is used for the scores only.

`k-means`: semi-supervised k-means of the learnt features. `settled`: the same, beginning at the clusters of the run.
`smoothed`: the mean of the probabilities of an image and its 10 nearest neighbours. `equal sizes`: probabilities divided
by their mean over all images, again and again, until all categories are equally large; `half way` by its square root.

python benchmarks/refinement.py runs/cub/nngcd-0 runs/cub/nngcd-1 runs/cub/nngcd-2
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.clustering.neighbours import nearest_neighbours
from nngcd.clustering.semi_supervised_kmeans import SemiSupervisedKMeans
from nngcd.core.files import read_tensors
from nngcd.core.run_folder import RunFolder
from nngcd.evaluation import open_data
from nngcd.metrics.accuracy import split_accuracy
from nngcd.training.model import Model


def ways(features_nd: Tensor, scores_nk: Tensor, labels_n: Tensor) -> dict[str, Tensor]:
    """Return the clusters by every way."""
    n_clusters = scores_nk.shape[1]
    unit_nd = F.normalize(features_nd, dim=-1)
    probability_nk = scores_nk.softmax(-1)
    known_nk = probability_nk.clone()
    known_nk[labels_n >= 0] = F.one_hot(labels_n[labels_n >= 0], n_clusters).to(known_nk)
    found = {"as it is": probability_nk.argmax(-1)}
    k_means = SemiSupervisedKMeans(n_clusters).fit(unit_nd, labels_n)
    found["k-means"] = torch.as_tensor(np.asarray(k_means.labels_))
    found["settled"] = settled(unit_nd, known_nk.argmax(-1), labels_n)
    for m in (5, 10, 20):
        index_nm = nearest_neighbours(unit_nd, m)
        found[f"smoothed {m}"] = (known_nk + known_nk[index_nm].sum(1)).argmax(-1)
        found[f"smoothed {m}, own half"] = (known_nk + known_nk[index_nm].mean(1)).argmax(-1)
    for name, power in (("equal sizes", 1.0), ("half way", 0.5)):
        found[name] = evened(probability_nk, labels_n, power).argmax(-1)
    return found


def settled(unit_nd: Tensor, cluster_n: Tensor, labels_n: Tensor) -> Tensor:
    """Return clusters after k-means on the sphere that begins with these."""
    n_clusters = int(cluster_n.max()) + 1
    for _ in range(20):
        centres_kd = F.normalize(
            unit_nd.new_zeros(n_clusters, unit_nd.shape[1]).index_add_(0, cluster_n, unit_nd), dim=-1
        )
        cluster_n = torch.where(labels_n >= 0, labels_n, (unit_nd @ centres_kd.T).argmax(-1))
    return cluster_n


def evened(probability_nk: Tensor, labels_n: Tensor, power: float) -> Tensor:
    """Return probabilities whose mean over all images, labels counted as certain, is nearer to equal sizes."""
    known_nk = F.one_hot(labels_n.clamp(min=0), probability_nk.shape[1]).to(probability_nk)
    offset_k = probability_nk.new_zeros(probability_nk.shape[1])
    for _ in range(50):
        now_nk = (probability_nk.clamp(min=1e-12).log() - offset_k).softmax(-1)
        mean_k = torch.where((labels_n >= 0)[:, None], known_nk, now_nk).mean(0)
        offset_k = offset_k + 0.5 * (mean_k * len(mean_k)).clamp(min=1e-3).log()
    return (probability_nk.clamp(min=1e-12).log() - power * offset_k).softmax(-1)


def main() -> None:
    """Print a line for every way of every run, and the means."""
    names = sys.argv[1:]
    if not names:
        sys.exit(__doc__)
    table: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for name in names:
        run = RunFolder(Path(name))
        split, true_names = open_data(run)
        assert true_names is not None
        number = {one: i for i, one in enumerate([*split.class_names, *sorted({*true_names} - {*split.class_names})])}
        class_n = np.array([number[one] for one in true_names])
        is_scored_n, is_old_n = split.labels < 0, class_n < split.n_old
        model, _ = Model.load(run.model)
        features_nd = read_tensors(run.features)[0]["features_nd"].float()
        for way, cluster_n in ways(features_nd, model.scores(features_nd), torch.from_numpy(split.labels)).items():
            cluster = cluster_n.numpy()
            found = split_accuracy(class_n[is_scored_n], cluster[is_scored_n], is_old_n[is_scored_n])
            table[way].append((found.all, found.old, found.new))
    print("| way | All | Old | New | each |\n|---|---|---|---|---|")
    for way, rows in table.items():
        mean = np.mean(rows, 0) * 100
        each = ", ".join(f"{100 * row[0]:.1f}" for row in rows)
        print(f"| {way} | {mean[0]:.1f} | {mean[1]:.1f} | {mean[2]:.1f} | {each} |")


if __name__ == "__main__":
    main()
