"""Choosing settings without the truth: every candidate is scored on the real task in miniature (`datasets.hiding`).

All methods get the same candidates, and so the same budget. Scores on the real task, if they are wanted, come after the
choice and only tell how well the hidden classes rank the candidates.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from scipy.stats import spearmanr

from nngcd.core.config import merge, read_yaml
from nngcd.core.errors import ConfigError, did_you_mean
from nngcd.data.hiding import LABELS_HIDDEN
from nngcd.research.comparison import ComparisonRow, Summary
from nngcd.research.grid import Cell, Variant
from nngcd.research.table_report import TableReport
from nngcd.settings import OF_THE_MACHINE

HIDDEN_SHARE = 0.5
"""Of the labelled classes, as about half of the classes of most benchmarks are new; two folds hide each class once."""
OF_THE_DATA = ("data", "dataset", "k", "seed", "reading")
"""Settings of a run that are not chosen: they belong to the data."""
OF_THE_MINIATURE = {"reading.hide_classes", "reading.fold"}
"""Settings that make the task in miniature, the same for every candidate."""
PARTS = ("All", "Old", "New")
_NAME = re.compile(r"[\w=+-][\w.=+-]*")


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidate of a method that is best on hidden classes."""

    method: str
    candidate: str
    settings: Mapping[str, Any]
    """As a file for `--config`."""


def read_candidates(path: Path | None) -> dict[str, dict[str, Any]]:
    """Return the settings of each candidate by its name: those of a file, or else our own.

    Raises:
        ConfigError: the file is not a table of names, each with a group of settings that are a choice.
    """
    way_out = "Give each candidate a line, for example 'slow: {training: {learning_rate: 0.02}}'"
    with resources.as_file(resources.files("nngcd") / "recipes" / "candidates.yaml") as ours:
        candidates = read_yaml(path or ours, what="--candidates", way_out=way_out)
    if not candidates:
        raise ConfigError("--candidates", str(path), f"has no candidates. {way_out}")
    for name, settings in candidates.items():
        _check_candidate(str(name), settings)
    return {str(name): settings for name, settings in candidates.items()}


def _check_candidate(name: str, settings: object) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            "--candidates", name, "cannot be used as the name of a run folder. Use letters, digits and - _ . = +"
        )
    if not isinstance(settings, dict):
        raise ConfigError(f"--candidates, {name}", settings, "give a group of settings, for example {views: ...}")
    for key in settings:
        # A candidate that says which data are read could be scored on the truth, which must not choose.
        if key in (*OF_THE_DATA, "method"):
            raise ConfigError(
                f"--candidates, {name}", key, "cannot be set here: every candidate has the same data and task"
            )


def possible_in(effort: str, candidates: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the candidates that an effort can have: several sizes are not for effort full."""
    return {
        name: values
        for name, values in candidates.items()
        if effort != "full" or "sizes" not in (values.get("views") or {})
    }


def tuning_variants(
    methods: Sequence[str],
    candidates: Mapping[str, Mapping[str, Any]],
    names: Sequence[str] | None,
    *,
    told_by: str = "--candidates",
) -> list[Variant]:
    """Return every candidate, which is `told_by` a file, for every method, or only those of some names."""
    for name in names or []:
        if name not in candidates:
            hint = did_you_mean(name, candidates)
            raise ConfigError("--values", name, f"unknown candidate.{hint} Choose from: {', '.join(candidates)}")
    chosen = names or list(candidates)
    return [
        Variant(f"{method}-{name}", {**candidates[name], "method": method}, told_by=f"{told_by}, {name}")
        for method in methods
        for name in chosen
    ]


def choose(variants: Sequence[Variant], proxy: Mapping[str, ComparisonRow], shared: Mapping[str, Any]) -> list[Choice]:
    """Return the best candidate of each method by the mean over folds of All; of equal ones the first.

    One that failed in a fold comes after those that did not: folds are not equally hard, and it lacks one.

    Args:
        variants: all candidates of all methods.
        proxy: their rows on hidden classes by name. Nothing else is looked at.
        shared: the settings that all runs had, which are a part of what was chosen.
    """
    best: dict[str, Variant] = {}
    for variant in variants:
        method = variant.values["method"]
        if variant.name not in proxy:
            continue
        if method not in best or _merit(proxy[variant.name]) > _merit(proxy[best[method].name]):
            best[method] = variant
    common = {name: value for name, value in shared.items() if name not in (*OF_THE_DATA, *OF_THE_MACHINE)}
    return [
        Choice(method, one.name.removeprefix(f"{method}-"), merge(common, one.values)) for method, one in best.items()
    ]


def not_told_apart(choice: Choice, proxy: Mapping[str, ComparisonRow]) -> list[str]:
    """Return the method's candidates that hidden classes cannot tell from the chosen one, each with its difference.

    Behind it by less than the standard error of the difference, fold by fold; one fold tells nothing of that.
    """
    chosen, found = proxy[f"{choice.method}-{choice.candidate}"].accuracy, []
    for name, row in proxy.items():
        candidate = name.removeprefix(f"{choice.method}-")
        behind = [row.accuracy[fold] - chosen[fold] for fold in chosen if fold in row.accuracy]
        if candidate in (name, choice.candidate) or len(behind) < 2:
            continue
        error = stdev(behind) / len(behind) ** 0.5
        if -mean(behind) <= error:
            found.append(f"{candidate} ({mean(behind):+.1f}, standard error {error:.1f})")
    return found


def rank_correlation(proxy: Mapping[str, ComparisonRow], final: Mapping[str, ComparisonRow]) -> float:
    """Return Spearman's correlation of the mean All on hidden classes and on the real task; nan below 3 candidates."""
    names = [name for name in proxy if name in final]
    if len(names) < 3:
        return float("nan")
    found = spearmanr([_all(proxy[name]) for name in names], [_all(final[name]) for name in names])
    return float(found.statistic)


def tuning_report(
    dataset: str,
    proxy: Mapping[str, ComparisonRow],
    final: Mapping[str, ComparisonRow],
    choices: Sequence[Choice],
    protocol: str,
) -> TableReport:
    """Return the table: every candidate's score on hidden classes, best first, and on the real task if there is one."""
    chosen = {f"{choice.method}-{choice.candidate}" for choice in choices}
    head = ["candidate", *(f"hidden {part}" for part in PARTS)]
    head += [f"real {part}" for part in PARTS] if final else []
    lines = []
    for name, row in sorted(proxy.items(), key=lambda item: -_all(item[1])):
        cells = [row.cell(part) for part in PARTS]
        if final:
            cells += [final[name].cell(part) if name in final else "-" for part in PARTS]
        lines.append([f"{name} (chosen)" if name in chosen else name, *cells])
    notes = [protocol]
    for choice in choices:
        if others := not_told_apart(choice, proxy):
            told = f"hidden classes do not separate {choice.candidate} from {', '.join(others)}"
            notes.append(f"{choice.method}: {told}. More folds (--seeds) may do so.")
    if final:
        notes.append(
            f"Rank correlation (Spearman) of hidden and real All over {len(set(proxy) & set(final))} candidates: "
            f"{rank_correlation(proxy, final):.2f}. The choice used hidden All only."
        )
    count = f"{len(proxy)} candidate{'s' * (len(proxy) > 1)}"
    return TableReport(f"Tuning on {dataset}: {count} on hidden labelled classes", head, lines, notes)


def in_miniature(real: Cell) -> Variant:
    """Return a candidate with the settings of the task in miniature; the seed of the run is the fold.

    Half as many categories want half the batch: a batch then shows as many images of each. A quarter of the images, as
    the field labels, with half the batch and twice the epochs makes as many steps as the real task. What a candidate
    itself says of training also holds for this task. What methods count in epochs (warm-up, how often neighbours are
    found) stays as it is, and so is over after half as many steps. The number of categories is known here, whatever K
    is elsewhere.
    """
    training = real.settings.training
    task = {
        "k": None,
        "reading": {"hide_classes": HIDDEN_SHARE, "fold": real.settings.seed},
        "training": {"batch_size": max(training.batch_size // 2, 1), "epochs": 2 * training.epochs},
    }
    return dataclasses.replace(real.variant, values=merge(task, real.variant.values))


def tuning_protocol(summaries: Sequence[Summary]) -> str:
    """Return what the numbers are."""
    first = summaries[0]
    folds = len({summary["seed"] for summary in summaries})
    efforts = ", ".join(sorted({summary["effort"] for summary in summaries}))
    return (
        f"Hidden: {HIDDEN_SHARE:.0%} of the labelled classes and {LABELS_HIDDEN:.0%} of the others' labels; unlabelled "
        f"images are left out. {folds} fold{'s' * (folds > 1)}, about "
        f"{mean(s['scores']['n_scored'] for s in summaries):.0f} images scored in each; K = {first['k']}, "
        f"{first['backbone']}, effort {efforts} with half the batch and twice the epochs, unless a candidate "
        f"sets them. No label of an unlabelled image is read."
    )


def _merit(row: ComparisonRow) -> tuple[int, float]:
    return len(row.accuracy), _all(row)


def _all(row: ComparisonRow) -> float:
    return mean(row.accuracy.values())
