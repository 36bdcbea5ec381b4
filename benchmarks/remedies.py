"""Remedies for methods that lean towards known categories, compared: the default of NN-GCD, and one change each.

python benchmarks/remedies.py PATH/TO/CUB_200_2011 --dataset cub --cache runs/.nngcd-cache --seeds 0 1 2
python benchmarks/remedies.py FEATURES.npz --seeds 0

Numbers that a remedy needs (how far known scores are lowered, where the gate is) are chosen on tasks of hidden classes,
for the accuracy by name. An .npz holds X (features), y (labels, -1 for unlabelled) and truth (true classes).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from frozen_features import data_parser
from nngcd.clustering.split_and_merge import cheapest_merge
from nngcd.clustering.surroundings import Surroundings
from nngcd.core.progress import Progress
from nngcd.data.hiding import hide_classes
from nngcd.data.split import Split, Truth
from nngcd.methods import simgcd
from nngcd.methods.contract import Batch
from nngcd.pipeline import fit_job
from nngcd.results.scoring import score
from nngcd.runs.preparing import prepare
from nngcd.settings import resolve
from split_and_merge import HIDDEN_TRAINING, opened

FOLDS = (0, 1)
LOWERED = tuple(np.arange(0, 4.1, 0.25))
"""By how much scores of known clusters are lowered: cosines over a temperature of 0.1."""
GATES = tuple(np.arange(-4, 1.1, 0.25))
"""Log odds of labelled images around an image below which it is not of its known cluster."""
MORE_CLUSTERS = 1.5


class Run(NamedTuple):
    """What a fit gives."""

    split: Split
    truth: Truth
    scores_nk: Tensor
    features_nd: Tensor

    def scored(self, cluster_n: Tensor) -> dict[str, Any]:
        """Return the scores of the unlabelled images."""
        is_open = ~self.split.is_labelled
        return score(self.truth.classes[is_open], cluster_n.numpy()[is_open], self.truth.n_old)


def main() -> None:
    """Print a row per remedy: means over seeds."""
    parser = data_parser(__doc__)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--labels", type=int, default=None, help="labelled images a class, all by default")
    arguments = parser.parse_args()
    arguments.method = "nngcd"
    split, truth = opened(arguments)
    hidden = [
        fitted(*hide_classes(split, 0.5, fold=fold), arguments, loss={"split_epochs": 0}, training=HIDDEN_TRAINING)
        for fold in FOLDS
    ]
    lowered, gate = chosen(hidden, lowered_scores, LOWERED), chosen(hidden, gated, GATES)
    print(f"chosen on hidden classes: scores of known clusters lowered by {lowered:g}, gate at {gate:g}", flush=True)
    rows: dict[str, list[dict[str, Any]]] = {}
    for seed in arguments.seeds:
        for name, found in outcomes(split, truth, arguments, seed=seed, lowered=lowered, gate=gate):
            rows.setdefault(name, []).append(found)
    print("| remedy | All/Old/New | by name | called known |\n|---|---|---|---|")
    for name, found in rows.items():
        cells = ["/".join(f"{np.mean([one[kind][part] for one in found]):.1f}" for part in ("all", "old", "new"))
                 for kind in ("accuracy", "by_name")]  # fmt: skip
        print(f"| {name} | {' | '.join(cells)} | {np.mean([one['called_known']['share'] for one in found]):.1f} |")


def outcomes(
    split: Split, truth: Truth, arguments: argparse.Namespace, *, seed: int, lowered: float, gate: float
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each remedy with its scores."""

    def fit(**settings: Any) -> Run:  # noqa: ANN401 (settings of all kinds)
        return fitted(split, truth, arguments, **{"seed": seed, "loss": {"split_epochs": 0}} | settings)

    plain = fit()
    yield "none", plain.scored(plain.scores_nk.argmax(-1))
    yield "known scores lowered", plain.scored(lowered_scores(plain, lowered))
    yield "known/new gate", plain.scored(gated(plain, gate))
    with patch.object(simgcd.Method, "pseudo_label_terms", terms_of_the_data):
        prior = fit()
    yield "prior of the data", prior.scored(prior.scores_nk.argmax(-1))
    assert split.n_classes is not None
    yield "more clusters, then merged", plain.scored(merged_to(fit(k=int(MORE_CLUSTERS * split.n_classes)), split))
    moved = fit(loss={})
    yield "splits and merges (default)", moved.scored(moved.scores_nk.argmax(-1))


def fitted(split: Split, truth: Truth, arguments: argparse.Namespace, **settings: Any) -> Run:  # noqa: ANN401
    """Fit with the default settings and these."""
    asked: dict[str, Any] = {"method": "nngcd", "effort": "quick", "k": split.n_classes}
    if not arguments.data.endswith(".npz"):
        asked |= {"data": arguments.data, "dataset": arguments.dataset}
    job = prepare(split, resolve(asked | settings))
    found = fit_job(job, run=None, cache=arguments.cache, progress=Progress())
    return Run(split, truth, found.scores_nk, found.features_nd)


def chosen(runs: list[Run], remedy: Callable[[Run, float], Tensor], values: tuple[float, ...]) -> float:
    """Return the value with which most images are right by name, over tasks of hidden classes."""
    return max(values, key=lambda value: sum(run.scored(remedy(run, value))["by_name"]["all"] for run in runs))


def lowered_scores(run: Run, by: float) -> Tensor:
    """Return the clusters when known ones have lower scores."""
    scores_nk = run.scores_nk.clone()
    scores_nk[:, : run.split.n_old] -= by
    return scores_nk.argmax(-1)


def gated(run: Run, gate: float) -> Tensor:
    """Return the clusters when images with few labelled ones around them leave their known cluster."""
    n_old, cluster_n = run.split.n_old, run.scores_nk.argmax(-1)
    labels_n, generator = torch.from_numpy(run.split.labels), torch.Generator().manual_seed(0)
    around = Surroundings.of(run.features_nd, cluster_n, labels_n, n_old=n_old, generator=generator)
    is_known_n = cluster_n < n_old
    is_out_n = is_known_n.clone()
    is_out_n[is_known_n] = around.evidence(run.features_nd[is_known_n], cluster_n[is_known_n]) < gate
    return torch.where(is_out_n, n_old + run.scores_nk[:, n_old:].argmax(-1), cluster_n)


def merged_to(run: Run, split: Split) -> Tensor:
    """Return the clusters when new ones that are most alike were merged until there are K."""
    unit_nd, cluster_n = F.normalize(run.features_nd, dim=-1), run.scores_nk.argmax(-1)
    left = list(range(split.n_old, run.scores_nk.shape[1]))
    while split.n_old + len(left) > (split.n_classes or 0):
        merge = cheapest_merge(unit_nd, cluster_n, torch.tensor(left))
        cluster_n[cluster_n == merge.freed] = merge.kept
        left.remove(merge.freed)
    return cluster_n


def terms_of_the_data(method: simgcd.Method, batch: Batch, logits_vbk: Tensor) -> dict[str, Tensor]:
    """Return the pseudo-label terms; the mean prediction has as large a share of labelled images as the data have.

    Half of a batch is labelled, so that known classes are more common in it than in the data.
    """
    terms = PSEUDO_LABEL_TERMS(method, batch, logits_vbk)
    is_labelled_b = batch.labels_b >= 0
    open_b, labelled_b = (~is_labelled_b).nonzero().flatten(), is_labelled_b.nonzero().flatten()
    kept_b = torch.cat([open_b, labelled_b[: round(LABELLED_PER_OPEN * len(open_b))]])
    return terms | {"mean_entropy": method.config.entropy_weight * method.mean_entropy(logits_vbk[:, kept_b])}


PSEUDO_LABEL_TERMS = simgcd.Method.pseudo_label_terms
LABELLED_PER_OPEN = 1 / 3
"""Of CUB: 1,498 labelled images, 4,496 others."""


if __name__ == "__main__":
    main()
