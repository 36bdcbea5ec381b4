"""Finished runs side by side: mean and deviation over seeds, and differences between runs of the same seed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from nngcd.core.errors import DataError

Summary = Mapping[str, Any]
"""The content of a run's summary.json."""
SCORES = ("All", "Old", "New", "NMI", "by name", "called known")
HEAD = ("method", *SCORES, "seeds", "processor minutes", "peak GB")
NOT_SHOWN = {"seed", "data", "dataset", "k"}
"""Settings that make no row: seeds are averaged, the hash of the split says which data, and the summary says K."""
FACTS = ("method", "backbone", "effort", "preset", "k")
"""Facts that name a row where runs of one method differ in them."""


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """Runs that differ in their seed only."""

    name: str
    scores: dict[int, dict[str, float | None]]
    """By seed, then by name; None for a score of no images."""
    seconds: float
    """Of a run, on average."""
    processor_minutes: float
    """Of a run, on average, with its views already kept."""
    peak_gb: float | None
    """The most memory a run needed, of the GPU if there is one; None where it could not be measured."""

    def values(self, score: str) -> list[float]:
        """Return a score of every seed that has it."""
        return [value for scores in self.scores.values() if (value := scores[score]) is not None]

    def cell(self, score: str) -> str:
        """Return mean ± deviation of a score over the seeds."""
        return spread(self.values(score))

    @property
    def cells(self) -> list[str]:
        """The row of a table with the columns `HEAD`."""
        peak = "-" if self.peak_gb is None else f"{self.peak_gb:.1f}"
        seeds = " ".join(str(seed) for seed in self.scores)
        minutes = f"{self.processor_minutes:.{1 if self.processor_minutes >= 1 else 2}f}"
        return [self.name, *(self.cell(score) for score in SCORES), seeds, minutes, peak]

    @property
    def accuracy(self) -> dict[int, float]:
        """The accuracy on all images by seed."""
        return {seed: score for seed, scores in self.scores.items() if (score := scores["All"]) is not None}


def spread(values: Sequence[float]) -> str:
    """Return mean ± deviation; one value alone has no deviation, and none is a dash."""
    if not values:
        return "-"
    return f"{mean(values):.1f} ± {stdev(values):.1f}" if len(values) > 1 else f"{values[0]:.1f}"


def rows_of(summaries: Sequence[Summary], settings: Sequence[Mapping[str, Any]]) -> list[ComparisonRow]:
    """Return one row per choice of settings, best accuracy last; runs that differ in their seed only are one row.

    Raises:
        DataError: the runs cannot be compared: no scores, other images or labels, or one seed twice.
    """
    check_comparable(summaries)
    # Different methods have different recipes, which their names stand for.
    by_method: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for one in settings:
        by_method[one["method"]].append(one)
    differing = {name for group in by_method.values() for name in group[0] if _differs(name, group)} - NOT_SHOWN
    facts = [name for name in FACTS if name == "method" or _differs(name, summaries)]
    groups: dict[str, list[Summary]] = defaultdict(list)
    for summary, one in zip(summaries, settings, strict=True):
        others = {name: summary[name] for name in facts[1:]} | {
            name: one[name] for name in sorted(differing - set(facts)) if name in one
        }
        groups[", ".join([summary["method"], *(f"{name} {value}" for name, value in others.items())])].append(summary)
    return ranked([row_of(name, group) for name, group in groups.items()])


def _differs(name: str, values: Sequence[Mapping[str, Any]]) -> bool:
    return len({repr(one.get(name)) for one in values}) > 1


def check_comparable(summaries: Sequence[Summary]) -> None:
    """Raise `DataError` unless all runs have scores, on the same images and labels."""
    for summary in summaries:
        if "scores" not in summary:
            what = f"{summary['method']} with seed {summary['seed']}"
            raise DataError(
                f"a run of {what} has no scores: the true labels of its data are not known. Only runs on benchmarks "
                "and digits can be compared; `nngcd evaluate RUN --truth FILE` scores one run."
            )
    if len({summary["split_hash"] for summary in summaries}) > 1:
        counts = sorted({f"{s['n_labelled']:,} of {s['n_images']:,} images labelled" for s in summaries})
        detail = f" ({'; '.join(counts)})" if len(counts) > 1 else ""
        raise DataError(f"the runs have different images or labels{detail}, so their scores cannot be compared.")


def row_of(name: str, group: Sequence[Summary]) -> ComparisonRow:
    """Return the row of runs that differ in their seed only."""
    seeds = [summary["seed"] for summary in group]
    if len(set(seeds)) < len(seeds):
        twice = next(seed for seed in seeds if seeds.count(seed) > 1)
        raise DataError(f"there are two runs of {name} with seed {twice}; leave one out.")
    ordered = sorted(group, key=lambda summary: summary["seed"])
    peaks = [peak.get("gpu", peak["ram"]) for summary in group if (peak := summary["peak_gb"])]
    scores = {summary["seed"]: _scores(summary) for summary in ordered}
    minutes = mean(summary["processor_seconds"]["fit"] for summary in group) / 60
    return ComparisonRow(name, scores, mean(s["seconds"] for s in group), minutes, max(peaks, default=None))


def _scores(summary: Summary) -> dict[str, float | None]:
    scores = summary["scores"]
    accuracy, by_name = scores["accuracy"], scores["by_name"]
    return {
        "All": accuracy["all"],
        "Old": accuracy["old"],
        "New": accuracy["new"],
        "NMI": scores["nmi"],
        "by name": by_name["all"],
        "by name Old": by_name["old"],
        "by name New": by_name["new"],
        "called known": scores["called_known"]["share"],
    }


def by_name_note(summaries: Sequence[Summary]) -> str:
    """Return what the columns `by name` and `called known` are, with the true share where all runs have the same."""
    shares = {summary["scores"]["called_known"]["true_share"] for summary in summaries} - {None}
    truth = f", where {shares.pop():.1f} % belong to one" if len(shares) == 1 else ""
    return (
        "by name: All when a cluster named after an old class counts only as that class. "
        f"called known: per cent of the images put into a known category{truth}."
    )


def gain_sentences(rows: Sequence[ComparisonRow]) -> list[str]:
    """Return by how much the last row is better than each of the others, in words."""
    best = rows[-1].name
    return [
        f"{best} is better than {name} by {gain} All ({n} common seeds)"
        if n > 1
        else f"{best} is ahead of {name} by {gain} All on their only common seed; more seeds would tell if it is better"
        for name, gain, n in paired_differences(rows)
    ]


def ranked(rows: Sequence[ComparisonRow]) -> list[ComparisonRow]:
    """Return the rows by rising accuracy."""
    return sorted(rows, key=lambda row: mean(row.accuracy.values()))


def paired_differences(rows: Sequence[ComparisonRow]) -> list[tuple[str, str, int]]:
    """Return for each row but the last: its name, how much better the last is in All, and over how many common seeds.

    Runs of one seed share what is random about the data, so their difference says more than that of two means.
    """
    best, found = rows[-1], []
    for row in rows[:-1]:
        seeds = sorted(set(row.scores) & set(best.scores))
        if seeds:
            gains = [best.accuracy[seed] - row.accuracy[seed] for seed in seeds]
            found.append((row.name, spread(gains), len(seeds)))
    return found
