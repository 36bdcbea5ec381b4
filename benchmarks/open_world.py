"""Is what a run says of itself true in an open world? Stated confidence, novelty and warnings against the truth.

Tasks are drawn from CUB, the digits and CIFAR-10 (`open_tasks`), as a user would bring them: K is estimated, and some
labels are held back. Of CUB's classes every other one (1, 3, ...) is for development: `--fit` learns the weights in
`nngcd/confidence.py` on tasks made of those. The measurement is on tasks of the other classes, and of other pools.

python benchmarks/open_world.py --cub CUB --cifar10 package --cache runs/.nngcd-cache --out open-world --assert
python benchmarks/open_world.py --cub CUB --cache runs/.nngcd-cache --out open-world --fit
"""

from __future__ import annotations

import argparse
import pickle
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from measuring import Target
from nngcd.core.errors import NngcdWarning
from nngcd.core.progress import Progress
from nngcd.job import prepare
from nngcd.metrics.calibration import auroc
from nngcd.pipeline import fit_job
from nngcd.results import Fitted, results_of
from nngcd.settings import resolve
from nngcd.suspicions import hidden_groups
from open_tasks import OpenTask, Pool, add_pools, draw_task, open_pools

N_CUB = 20
LEAST_HIDDEN, LEAST_HIDDEN_SHARE = 4, 0.2
"""A known category hides another class if so many of its unlabelled images, and this share of them, are of that one."""
Flags = NDArray[np.bool_]


class Outcome(NamedTuple):
    """A finished task: what a row is called, what is stated, what is true; unlabelled rows only."""

    name: str
    k: int
    found_k: int
    is_known: Flags
    """Whether a row is called known."""
    is_right: Flags
    is_of_known: Flags
    """Whether a row's image is of a known category."""
    confidence: NDArray[np.float64]
    before: NDArray[np.float64]
    """The model's own probability, calibrated on held-back labels alone."""
    novelty: NDArray[np.float64]
    groups: list[bool]
    """For each category with a warning, whether most of the group is of other categories."""
    n_hiding: int
    n_found: int
    """Categories that hide another class, and those of them with a warning."""
    known_evidence: NDArray[np.float64]
    new_evidence: NDArray[np.float64]


def main() -> None:
    """Run the tasks, or take those that were run before, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_pools(parser)
    parser.add_argument("--out", type=Path, required=True, help="folder that keeps the outcome of each task")
    parser.add_argument("--fit", action="store_true", help="learn the weights on the development tasks and print them")
    parser.add_argument("--only", help="only tasks whose name begins so")
    parser.add_argument("--assert", dest="is_strict", action="store_true", help="exit code 1 if a target is missed")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", NngcdWarning)
    torch.set_num_threads(1)
    pools = open_pools(arguments)
    draw = development_tasks if arguments.fit else measured_tasks
    tasks = (task for task in draw(pools) if task.name.startswith(arguments.only or ""))
    outcomes = [outcome_of(task, arguments.out, arguments.cache) for task in tasks]
    if arguments.fit:
        fit(outcomes)
    else:
        show(outcomes, is_strict=arguments.is_strict)


def measured_tasks(pools: dict[str, Pool]) -> Iterator[OpenTask]:
    """Yield the tasks that numbers are reported of."""
    if "cub" in pools:
        pool, rng = some_classes(pools["cub"], first=0), np.random.default_rng(0)
        for seed in range(N_CUB):
            n_classes = int(rng.integers(20, 61))
            yield draw_task("cub", pool, n_classes=n_classes, n_old=n_classes // 2, seed=seed)
    for name in ("digits", "cifar10"):
        for seed in range(3 if name in pools else 0):
            yield draw_task(name, pools[name], n_classes=10, n_old=5, seed=seed)


def development_tasks(pools: dict[str, Pool]) -> Iterator[OpenTask]:
    """Yield tasks of many kinds, of classes that no measured task has."""
    pool, rng = some_classes(pools["cub"], first=1), np.random.default_rng(1)
    for seed in range(100, 124):
        n_classes = int(rng.integers(10, 81))
        n_old = max(round(n_classes * rng.choice([0.3, 0.5, 0.5, 0.7])), 4)
        share = float(rng.choice([0.25, 0.5, 0.5, 0.8]))
        yield draw_task("dev", pool, n_classes=n_classes, n_old=n_old, labelled_share=share, seed=seed)


def some_classes(pool: Pool, *, first: int) -> Pool:
    """Return every other class of a pool, numbered anew."""
    class_n = np.where(pool.class_n % 2 == first, pool.class_n // 2, -1)
    return Pool(pool.split, class_n)


def outcome_of(task: OpenTask, out: Path, cache: Path | None) -> Outcome:
    """Return the outcome of a task, from its file if it was run before."""
    path = out / f"{task.name}.pickle"
    if path.is_file():
        return Outcome(**pickle.loads(path.read_bytes()))
    settings = resolve({"data": task.name, "k": "auto", "workers": 1})
    fitted = fit_job(prepare(task.split, settings), run=None, cache=cache, progress=Progress())
    found = _outcome(task, fitted)
    out.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(found._asdict()))
    print(f"{found.name}: K {found.k}, found {found.found_k}", file=sys.stderr, flush=True)
    return found


def _outcome(task: OpenTask, fitted: Fitted) -> Outcome:
    n_old, cluster_n = task.truth.n_old, fitted.scores_nk.argmax(-1).numpy()
    is_open = ~task.split.is_labelled
    class_u, cluster_u = task.truth.classes[is_open], cluster_n[is_open]
    results, row_u = results_of(task.split, fitted), torch.from_numpy(np.flatnonzero(is_open))
    table, confidence, scores_uk = results[is_open], fitted.confidence, fitted.scores_nk[row_u]
    is_known = torch.from_numpy(cluster_u < n_old)
    features_uf = fitted.features_nd[row_u]
    known = confidence.known_evidence(scores_uk[is_known], features_uf[is_known], n_old=n_old)
    groups = hidden_groups(results, task.split.class_names)
    named = {group.category for group in groups}
    hiding = [
        name for number, name in enumerate(task.split.class_names) if _hides(class_u[cluster_u == number], number)
    ]
    numbers = {name: number for number, name in enumerate(task.split.class_names)}
    return Outcome(
        name=task.name, k=task.k, found_k=fitted.scores_nk.shape[1],
        is_known=is_known.numpy(), is_right=_is_right(class_u, cluster_u, n_old), is_of_known=class_u < n_old,
        confidence=table["confidence"].to_numpy(), novelty=table["novelty"].to_numpy(),
        before=confidence.probabilities(scores_uk).max(-1).values.numpy(),
        groups=[_is_other(results, group.image_ids, task, numbers[group.category]) for group in groups],
        n_hiding=len(hiding), n_found=len(named & set(hiding)),
        known_evidence=torch.stack(list(known), 1).double().numpy(),
        new_evidence=torch.stack(list(confidence.new_evidence(scores_uk[~is_known], n_old=n_old)), 1).double().numpy(),
    )  # fmt: skip


def _is_right(class_u: NDArray[np.int64], cluster_u: NDArray[np.int64], n_old: int) -> Flags:
    """Return which rows are right: by name in known clusters, of the class that most are of in new ones."""
    is_right = class_u == cluster_u
    for cluster in np.unique(cluster_u[cluster_u >= n_old]):
        inside = cluster_u == cluster
        is_right[inside] = class_u[inside] == np.bincount(class_u[inside]).argmax()
    return is_right


def _hides(class_m: NDArray[np.int64], own: int) -> bool:
    others = class_m[class_m != own]
    most = int(np.bincount(others).max()) if len(others) else 0
    return most >= max(LEAST_HIDDEN, LEAST_HIDDEN_SHARE * len(class_m))


def _is_other(results: Any, image_ids: list[str], task: OpenTask, own: int) -> bool:  # noqa: ANN401 (a table)
    inside = results["image_id"].isin(image_ids).to_numpy()
    return bool((task.truth.classes[inside] != own).mean() > 0.5)


def show(outcomes: list[Outcome], *, is_strict: bool) -> None:
    """Print a row per task, and the targets."""
    print("| task | K | found | called known: before | stated | right | called new: before | stated | right | AUROC |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    gaps: dict[str, list[float]] = {"known": [], "new": [], "known before": [], "new before": []}
    separations = []
    for one in outcomes:
        cells = []
        for kind, called in (("known", one.is_known), ("new", ~one.is_known)):
            before, stated, right = (float(v[called].mean()) for v in (one.before, one.confidence, one.is_right))
            gaps[kind].append(stated - right)
            gaps[f"{kind} before"].append(before - right)
            cells += [f"{before:.3f}", f"{stated:.3f}", f"{right:.3f}"]
        separations.append(auroc(one.novelty[one.is_known], ~one.is_of_known[one.is_known]))
        print(f"| {one.name} | {one.k} | {one.found_k} | {' | '.join(cells)} | {separations[-1]:.2f} |")
    warned, n_hiding = [good for one in outcomes for good in one.groups], sum(one.n_hiding for one in outcomes)
    n_found = sum(one.n_found for one in outcomes)
    targets = []
    for kind, of_kind in gaps.items():
        size = np.abs(of_kind)
        targets += [Target(f"called {kind}: stated - right, mean size", float(size.mean()), 0.05),
                    Target(f"called {kind}: stated - right, largest", float(size.max()), 0.12)]  # fmt: skip
    targets += [
        Target("AUROC of novelty among rows called known", float(np.nanmean(separations)), 0.80, is_minimum=True),
        Target(f"'may hide another': precision ({len(warned)} warnings)", float(np.mean(warned)), 0.8, is_minimum=True),
        Target(f"'may hide another': recall (of {n_hiding})", n_found / n_hiding, 0.5, is_minimum=True),
    ]
    print("\n" + "\n".join(str(target) for target in targets))
    if is_strict and not all(target.is_met for target in targets if "before" not in target.name):
        sys.exit(1)


def fit(outcomes: list[Outcome]) -> None:
    """Print the weights that make the development tasks' outcomes most probable, every task counting alike."""
    sane = [one for one in outcomes if abs(np.log(one.found_k / one.k)) < 0.3]
    print(f"{len(sane)} of {len(outcomes)} tasks, those whose number of categories was found to a quarter")
    for name, evidence, target, called in (
        ("KNOWN_IS_RIGHT", "known_evidence", "is_right", True),
        ("KNOWN_IS_KNOWN", "known_evidence", "is_of_known", True),
        ("NEW_IS_RIGHT", "new_evidence", "is_right", False),
        ("NEW_IS_NEW", "new_evidence", "is_new", False),
    ):
        x = [getattr(one, evidence) for one in sane]
        y = [(~one.is_of_known if target == "is_new" else getattr(one, target))[one.is_known == called] for one in sane]
        print(name, _weights(x, y))
    print(
        "SPREAD",
        {kind: round(float(np.std(_gaps(sane, called))), 3) for kind, called in (("known", True), ("new", False))},
    )


def _weights(x: list[NDArray[np.float64]], y: list[Flags]) -> tuple[float, ...]:
    weight = np.concatenate([np.full(len(one), 100 / max(len(one), 1)) for one in y])
    found = LogisticRegression(C=1.0).fit(np.concatenate(x), np.concatenate(y), sample_weight=weight)
    return tuple(np.round([found.intercept_[0], *found.coef_[0]], 2).tolist())


def _gaps(outcomes: list[Outcome], called: bool) -> list[float]:
    return [float((one.confidence - one.is_right)[one.is_known == called].mean()) for one in outcomes]


if __name__ == "__main__":
    main()
