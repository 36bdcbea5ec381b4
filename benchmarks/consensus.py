"""Consensus of several runs on the same data: is it better than each of them?

Two ways. `mean`: clusters of all runs are matched with those of the first, and the probabilities averaged. `clustered`:
semi-supervised k-means of the square roots of all probabilities, beside each other. The truth is used for the scores
only.

python benchmarks/consensus.py runs/cub/nngcd-0 runs/cub/nngcd-1 runs/cub/nngcd-2
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from nngcd.clustering.semi_supervised_kmeans import SemiSupervisedKMeans
from nngcd.core.run_folder import RunFolder
from nngcd.core.verified_files import read_tensors
from nngcd.metrics.accuracy import split_accuracy
from nngcd.runs.evaluation import open_data
from nngcd.training.model import Model


def main() -> None:
    """Print one line per run, and one for each way to agree."""
    runs = [RunFolder(Path(name)) for name in sys.argv[1:]]
    if len(runs) < 2:
        sys.exit(__doc__)
    split, true_names = open_data(runs[0])
    assert true_names is not None
    # Old classes first, as in the truth itself: of equally good matches the order decides.
    number = {name: i for i, name in enumerate([*split.class_names, *sorted({*true_names} - {*split.class_names})])}
    class_n = np.array([number[name] for name in true_names])
    is_scored_n, is_old_n = split.labels < 0, class_n < split.n_old

    def show(name: str, cluster_n: NDArray[np.int64]) -> None:
        found = split_accuracy(class_n[is_scored_n], cluster_n[is_scored_n], is_old_n[is_scored_n])
        print(f"| {name} | {found.all:.1%} | {found.old:.1%} | {found.new:.1%} |".replace("%", ""), flush=True)

    print("| run | All | Old | New |\n|---|---|---|---|")
    probability_rnk = [_probabilities(run) for run in runs]
    for run, probability_nk in zip(runs, probability_rnk, strict=True):
        show(run.path.name, probability_nk.argmax(-1).numpy())
    show("mean", _mean(probability_rnk).argmax(-1).numpy())
    beside_nd = torch.cat([probability_nk.sqrt() for probability_nk in probability_rnk], dim=-1)
    k_means = SemiSupervisedKMeans(probability_rnk[0].shape[1]).fit(beside_nd, torch.from_numpy(split.labels))
    show("clustered", np.asarray(k_means.labels_))


def _probabilities(run: RunFolder) -> Tensor:
    model, _ = Model.load(run.model)
    return model.scores(read_tensors(run.features)[0]["features_nd"].float()).softmax(-1)


def _mean(probability_rnk: list[Tensor]) -> Tensor:
    first_nk, *others = probability_rnk
    matched = [first_nk]
    for probability_nk in others:
        overlap_kk = (first_nk.T @ probability_nk).numpy()
        matched.append(probability_nk[:, linear_sum_assignment(-overlap_kk)[1]])
    return torch.stack(matched).mean(0)


if __name__ == "__main__":
    main()
