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
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from measuring import Target
from nngcd.core.errors import NngcdWarning
from nngcd.core.progress import Progress
from nngcd.metrics.calibration import auroc
from nngcd.pipeline import fit_job
from nngcd.results import suspicions
from nngcd.results.confidence import KNOWN_IS_KNOWN, KNOWN_IS_RIGHT, NEW_IS_RIGHT, probability
from nngcd.results.result_tables import Fitted
from nngcd.results.suspicions import MixedCategory, alike_pairs, hidden_groups, mixed_categories
from nngcd.runs.preparing import prepare
from nngcd.settings import resolve
from open_tasks import OpenTask, Pool, add_pools, draw_task, open_pools

N_CUB = 20
LEAST_HIDDEN, LEAST_HIDDEN_SHARE = 4, 0.2
"""A known category hides another class if so many of its unlabelled images, and this share of them, are of that one."""
Flags = NDArray[np.bool_]


class Outcome(NamedTuple):
    """A finished task: what each unlabelled row is called and is, and what speaks for it."""

    name: str
    k: int
    found_k: int
    n_old: int
    class_u: NDArray[np.int64]
    cluster_u: NDArray[np.int64]
    before_u: NDArray[np.float64]
    """The model's own probability, calibrated on held-back labels alone."""
    known_evidence: NDArray[np.float64]
    """Of the rows called known, a column for each part of `KnownEvidence`."""
    new_evidence: NDArray[np.float64]
    alike: list[tuple[int, int]]
    """Pairs of new clusters that may be one."""

    @property
    def is_known(self) -> Flags:
        """Whether a row is called known."""
        return self.cluster_u < self.n_old

    @property
    def is_right(self) -> Flags:
        """Whether a row is right: by name in known clusters, of the class that most are of in new ones."""
        is_right = self.class_u == self.cluster_u
        for cluster in np.unique(self.cluster_u[~self.is_known]):
            inside = self.cluster_u == cluster
            is_right[inside] = self.class_u[inside] == np.bincount(self.class_u[inside]).argmax()
        return is_right

    @property
    def is_of_known(self) -> Flags:
        """Whether a row's image is of a known category."""
        return self.class_u < self.n_old

    @property
    def confidence(self) -> NDArray[np.float64]:
        """The stated probability, with the current weights."""
        stated = np.empty(len(self.class_u))
        stated[self.is_known] = _judged(KNOWN_IS_RIGHT, self.known_evidence)
        stated[~self.is_known] = _judged(NEW_IS_RIGHT, self.new_evidence)
        return stated

    @property
    def novelty_of_known(self) -> NDArray[np.float64]:
        """The stated probability that rows called known are of no known category."""
        return 1 - _judged(KNOWN_IS_KNOWN, self.known_evidence)

    def warnings(self) -> list[tuple[int, bool]]:
        """Return the categories that get a warning, each with whether most of its group is of other categories."""
        groups = hidden_groups(self.table(), range(self.n_old))  # type: ignore[arg-type]  # categories by number
        return [(int(g.category), bool((self.class_u[g.image_ids] != int(g.category)).mean() > 0.5)) for g in groups]

    def table(self) -> pd.DataFrame:
        """Return what a run's results say of the rows, with numbers for names."""
        rows = {"image_id": np.arange(len(self.class_u)), "label_given": None}
        return pd.DataFrame({**rows, "category": self.cluster_u, "confidence": self.confidence})

    def mixed(self) -> list[bool]:
        """Return of each new category that may be several things whether a second class has a good part of it."""
        found = mixed_categories(self.table(), range(self.n_old))  # type: ignore[arg-type]
        return [_hides(inside, int(np.bincount(inside).argmax())) for inside in map(self._classes, found)]

    def _classes(self, found: MixedCategory) -> NDArray[np.int64]:
        return self.class_u[self.cluster_u == int(found.category)]

    def equal(self) -> list[bool]:
        """Return of each pair of new categories that may be one whether most images of both are of the same class."""
        main = {
            number: np.bincount(self.class_u[self.cluster_u == number]).argmax() for number in set(sum(self.alike, ()))
        }
        return [bool(main[first] == main[second]) for first, second in self.alike]

    def hiding(self) -> list[int]:
        """Return the known categories that do hide another class."""
        return [number for number in range(self.n_old) if _hides(self.class_u[self.cluster_u == number], number)]


def _judged(weights: tuple[float, ...], evidence: NDArray[np.float64]) -> NDArray[np.float64]:
    return probability(weights, list(torch.from_numpy(evidence).T)).numpy()


def main() -> None:
    """Run the tasks, or take those that were run before, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_pools(parser)
    parser.add_argument("--out", type=Path, required=True, help="folder that keeps the outcome of each task")
    parser.add_argument("--fit", action="store_true", help="learn the weights on the development tasks and print them")
    parser.add_argument("--split-epochs", type=int, help="epochs between searches of known clusters")
    parser.add_argument("--only", help="only tasks whose name begins so")
    parser.add_argument("--assert", dest="is_strict", action="store_true", help="exit code 1 if a target is missed")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", NngcdWarning)
    torch.set_num_threads(1)
    pools = open_pools(arguments)
    draw = development_tasks if arguments.fit else measured_tasks
    tasks = (task for task in draw(pools) if task.name.startswith(arguments.only or ""))
    outcomes = [outcome_of(task, arguments) for task in tasks]
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
        tail = float(rng.choice([1.0, 1.0, 4.0]))
        yield draw_task("dev", pool, n_classes=n_classes, n_old=n_old, labelled_share=share, tail_ratio=tail, seed=seed)


def some_classes(pool: Pool, *, first: int) -> Pool:
    """Return every other class of a pool, numbered anew."""
    class_n = np.where(pool.class_n % 2 == first, pool.class_n // 2, -1)
    return Pool(pool.split, class_n)


def outcome_of(task: OpenTask, arguments: argparse.Namespace) -> Outcome:
    """Return the outcome of a task, from its file if it was run before."""
    out, epochs = arguments.out, arguments.split_epochs
    path = out / f"{task.name}.pickle"
    if path.is_file():
        return Outcome(**pickle.loads(path.read_bytes()))
    loss = {} if epochs is None else {"split_epochs": epochs}
    settings = resolve({"data": task.name, "k": "auto", "workers": 1, "loss": loss})
    fitted = fit_job(prepare(task.split, settings), run=None, cache=arguments.cache, progress=Progress())
    found = _outcome(task, fitted)
    out.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(found._asdict()))
    print(f"{found.name}: K {found.k}, found {found.found_k}", file=sys.stderr, flush=True)
    return found


def _outcome(task: OpenTask, fitted: Fitted) -> Outcome:
    n_old, row_u = task.truth.n_old, torch.from_numpy(np.flatnonzero(~task.split.is_labelled))
    scores_uk, features_uf, confidence = fitted.scores_nk[row_u], fitted.features_nd[row_u], fitted.confidence
    cluster_u = scores_uk.argmax(-1)
    is_known = cluster_u < n_old
    known = confidence.known_evidence(scores_uk[is_known], features_uf[is_known], n_old=n_old)
    new = confidence.new_evidence(scores_uk[~is_known], n_old=n_old)
    return Outcome(
        name=task.name, k=task.k, found_k=fitted.scores_nk.shape[1], n_old=n_old,
        class_u=task.truth.classes[row_u.numpy()], cluster_u=cluster_u.numpy(),
        before_u=confidence.probabilities(scores_uk).max(-1).values.numpy(),
        known_evidence=torch.stack(list(known), 1).double().numpy(),
        new_evidence=torch.stack(list(new), 1).double().numpy(),
        alike=_alike(task, fitted),
    )  # fmt: skip


def _alike(task: OpenTask, fitted: Fitted) -> list[tuple[int, int]]:
    names = np.array(
        [*task.split.class_names, *(f"new-{i:04d}" for i in range(fitted.scores_nk.shape[1]))], dtype=object
    )
    cluster_n = np.where(task.split.is_labelled, task.split.labels, fitted.scores_nk.argmax(-1).numpy())
    given_n = np.where(task.split.is_labelled, names[task.split.labels], None)
    table = pd.DataFrame({"category": names[cluster_n], "label_given": given_n})
    number = {name: i for i, name in enumerate(names)}
    pairs = alike_pairs(table, task.split.class_names, fitted.features_nd)
    return [(number[pair.first], number[pair.second]) for pair in pairs]


def _hides(class_m: NDArray[np.int64], own: int) -> bool:
    others = class_m[class_m != own]
    most = int(np.bincount(others).max()) if len(others) else 0
    return most >= max(LEAST_HIDDEN, LEAST_HIDDEN_SHARE * len(class_m))


def show(outcomes: list[Outcome], *, is_strict: bool) -> None:
    """Print a row per task, and the targets."""
    print("| task | K | found | called known: before | stated | right | called new: before | stated | right | AUROC |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    gaps: dict[str, list[float]] = {"known": [], "new": [], "known before": [], "new before": []}
    separations = []
    for one in outcomes:
        cells = []
        for kind, called in (("known", one.is_known), ("new", ~one.is_known)):
            before, stated, right = (float(v[called].mean()) for v in (one.before_u, one.confidence, one.is_right))
            gaps[kind].append(stated - right)
            gaps[f"{kind} before"].append(before - right)
            cells += [f"{before:.3f}", f"{stated:.3f}", f"{right:.3f}"]
        separations.append(auroc(one.novelty_of_known, ~one.is_of_known[one.is_known]))
        print(f"| {one.name} | {one.k} | {one.found_k} | {' | '.join(cells)} | {separations[-1]:.2f} |")
    warned = [is_good for one in outcomes for _, is_good in one.warnings()]
    n_hiding = sum(len(one.hiding()) for one in outcomes)
    n_found = sum(len({number for number, _ in one.warnings()} & {*one.hiding()}) for one in outcomes)
    targets = []
    for kind, of_kind in gaps.items():
        size = np.abs(of_kind)
        targets += [Target(f"called {kind}: stated - right, mean size", float(size.mean()), 0.05),
                    Target(f"called {kind}: stated - right, largest", float(size.max()), 0.12)]  # fmt: skip
    mixed, equal = ([is_so for one in outcomes for is_so in found(one)] for found in (Outcome.mixed, Outcome.equal))
    print(f"\n'may be several things': {len(mixed)}, of which are {np.mean(mixed or [0]):.2f}")
    print(f"'may be one category': {len(equal)} pairs, of which are {np.mean(equal or [0]):.2f}")
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
    known = [one.known_evidence for one in outcomes]
    new = [one.new_evidence for one in outcomes]
    print("KNOWN_IS_RIGHT", _weights(known, [one.is_right[one.is_known] for one in outcomes]))
    print("KNOWN_IS_KNOWN", _weights(known, [one.is_of_known[one.is_known] for one in outcomes]))
    print("NEW_IS_RIGHT", _weights(new, [one.is_right[~one.is_known] for one in outcomes]))
    print("NEW_IS_NEW", _weights(new, [~one.is_of_known[~one.is_known] for one in outcomes]))
    for limit in (0.25, 0.3, 0.35, 0.4, 0.45, 0.5):
        with patch.object(suspicions, "DOUBTFUL", limit):
            warned = [is_good for one in outcomes for _, is_good in one.warnings()]
            found = [{number for number, _ in one.warnings()} & {*one.hiding()} for one in outcomes]
        recall = sum(map(len, found)) / max(sum(len(one.hiding()) for one in outcomes), 1)
        print(f"DOUBTFUL {limit}: {len(warned)} warnings, precision {np.mean(warned or [0]):.2f}, recall {recall:.2f}")
    for kind in ("known", "new"):
        gaps = [one.confidence - one.is_right for one in outcomes]
        of_kind = [gap[one.is_known == (kind == "known")].mean() for gap, one in zip(gaps, outcomes, strict=True)]
        print(f"SPREAD, {kind}: {np.std(of_kind):.3f} with the weights of now")


def _weights(x: list[NDArray[np.float64]], y: list[Flags]) -> tuple[float, ...]:
    weight = np.concatenate([np.full(len(one), 100 / max(len(one), 1)) for one in y])
    found = LogisticRegression(C=1.0).fit(np.concatenate(x), np.concatenate(y), sample_weight=weight)
    return tuple(np.round([found.intercept_[0], *found.coef_[0]], 2).tolist())


if __name__ == "__main__":
    main()
