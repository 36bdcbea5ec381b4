"""Scores that tell images of new categories from genuine ones, among rows that a run calls known.

The tasks are the development tasks of `open_world.py`, or with `--measured` those that its numbers are reported of. All
scores are made from the same runs: the learned features, the model's scores, and the labels that training knew.

python benchmarks/novelty.py --cub CUB --cache runs/.nngcd-cache
python benchmarks/novelty.py --cub CUB --cifar10 package --cache runs/.nngcd-cache --measured
"""

from __future__ import annotations

import argparse
import sys
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from nngcd.clustering.whitening import whitened_within_classes
from nngcd.core.errors import NngcdWarning
from nngcd.core.progress import Progress
from nngcd.metrics.calibration import auroc
from nngcd.pipeline import fit_job
from nngcd.runs.preparing import prepare
from nngcd.settings import resolve
from open_tasks import OpenTask, add_pools, open_pools
from open_world import development_tasks, measured_tasks

N_NEIGHBOURS = 10
N_MAIN = 64
"""Directions that ViM takes for the main ones."""


def main() -> None:
    """Print the mean AUROC of each score over the tasks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_pools(parser)
    parser.add_argument("--measured", action="store_true", help="the tasks that numbers are reported of")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", NngcdWarning)
    torch.set_num_threads(1)
    found: dict[str, list[float]] = {}
    tasks = (measured_tasks if arguments.measured else development_tasks)(open_pools(arguments))
    for task in tasks:
        for name, value in separations(task, arguments).items():
            found.setdefault(name, []).append(value)
        print(task.name, file=sys.stderr, flush=True)
    print("| score | mean AUROC | tasks in which it is the best |\n|---|---|---|")
    best = np.argmax(np.array([*found.values()]), axis=0)
    for place, (name, values) in enumerate(found.items()):
        print(f"| {name} | {np.mean(values):.2f} | {int((best == place).sum())} |")


def separations(task: OpenTask, arguments: argparse.Namespace) -> dict[str, float]:
    """Return the AUROC of each score among the unlabelled images that are called known."""
    job = prepare(task.split, resolve({"data": task.name, "k": "auto", "workers": 1}))
    fitted = fit_job(job, run=None, cache=arguments.cache, progress=Progress())
    labels_n = torch.from_numpy(np.where(job.is_held_back, -1, job.given.labels))
    row_u = ((fitted.scores_nk.argmax(-1) < task.truth.n_old) & torch.from_numpy(~task.split.is_labelled)).nonzero()[
        :, 0
    ]
    is_new_u = task.truth.classes[row_u.numpy()] >= task.truth.n_old
    scores = rivals(fitted.features_nd, fitted.scores_nk, labels_n, row_u, task.truth.n_old)
    judged = fitted.confidence.judge(fitted.scores_nk[row_u], fitted.features_nd[row_u], n_old=task.truth.n_old)
    scores["ours"] = judged.novel_b
    return {name: auroc(score_u.double().numpy(), is_new_u) for name, score_u in scores.items()}


def rivals(features_nd: Tensor, scores_nk: Tensor, labels_n: Tensor, row_u: Tensor, n_old: int) -> dict[str, Tensor]:
    """Return what the literature offers for free, higher for what looks new.

    Args:
        features_nd: the learned features of all images.
        scores_nk: the model's scores.
        labels_n: what training knew, -1 for unlabelled.
        row_u: the images to judge.
        n_old: how many categories are known.
    """
    unit_nd = F.normalize(features_nd.float(), dim=-1)
    own_u = scores_nk[row_u].argmax(-1)
    is_labelled_n = labels_n >= 0
    known_uk = scores_nk[row_u, :n_old]
    to_labelled_um = unit_nd[row_u] @ unit_nd[is_labelled_n].T
    n_near = min(N_NEIGHBOURS, to_labelled_um.shape[1])
    near_u = to_labelled_um.topk(n_near).values[:, -1]
    votes_un = labels_n[is_labelled_n][to_labelled_um.topk(n_near).indices]
    cosine_un = (unit_nd[row_u] @ unit_nd.T).scatter_(1, row_u[:, None], -torch.inf)
    around_un = labels_n[cosine_un.topk(N_NEIGHBOURS).indices]
    return {
        "one minus the largest probability": -scores_nk[row_u].softmax(-1).amax(-1),
        "max-logit (Vaze et al. 2022)": -known_uk.amax(-1),
        "energy (Liu et al. 2020)": -known_uk.logsumexp(-1),
        "distance to the 10th labelled neighbour (Sun et al. 2022)": -near_u,
        "share of the 10 nearest labelled images with another label": (votes_un != own_u[:, None]).double().mean(-1),
        "Mahalanobis, whitened within classes (Lee et al. 2018)": _mahalanobis(features_nd, labels_n, row_u, n_old),
        "ViM (Wang et al. 2022)": _vim(features_nd, scores_nk, row_u),
        "share without a label among the 10 nearest images": (around_un < 0).double().mean(-1),
    }


def _mahalanobis(features_nd: Tensor, labels_n: Tensor, row_u: Tensor, n_old: int) -> Tensor:
    """Return the distance to the nearest mean of a known category where its images spread alike in all directions."""
    white_nd = whitened_within_classes(features_nd.float(), labels_n)
    mean_kd = torch.stack(
        [white_nd[labels_n == number].mean(0) for number in range(n_old) if (labels_n == number).any()]
    )
    return torch.cdist(white_nd[row_u], mean_kd).amin(-1)


def _vim(features_nd: Tensor, scores_nk: Tensor, row_u: Tensor) -> Tensor:
    """Return the length outside the main directions, on the scale of the largest scores, less the energy."""
    centred_nd = features_nd.float() - features_nd.float().mean(0)
    _, direction_ed = torch.linalg.eigh(centred_nd.T @ centred_nd)
    rest_n = (centred_nd @ direction_ed[:, : max(centred_nd.shape[1] - N_MAIN, 1)]).norm(dim=-1)
    scale = float(scores_nk.amax(-1).mean() / rest_n.mean())
    return scale * rest_n[row_u] - scores_nk[row_u].logsumexp(-1)


if __name__ == "__main__":
    main()
