"""Finished runs side by side: mean and deviation over seeds, and differences between runs of the same seed."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any, Literal

from nngcd.core.errors import DataError

Format = Literal["md", "csv", "latex"]
Summary = Mapping[str, Any]
"""The content of a run's summary.json."""
SCORES = ("All", "Old", "New", "NMI")
SETTINGS = ("method", "backbone", "effort", "preset", "k")
"""What makes runs different rows of a table; runs that differ in their seed only are one row."""


@dataclass(frozen=True, slots=True)
class Row:
    """Runs that differ in their seed only."""

    name: str
    scores: dict[int, dict[str, float | None]]
    """By seed, then by name; None for a score of no images."""
    seconds: float
    """Of a run, on average."""

    def cell(self, score: str) -> str:
        """Return mean ± deviation of a score over the seeds."""
        values = [scores[score] for scores in self.scores.values()]
        return spread([value for value in values if value is not None])

    @property
    def accuracy(self) -> dict[int, float]:
        """The accuracy on all images by seed."""
        return {seed: scores["All"] or 0.0 for seed, scores in self.scores.items()}


def spread(values: Sequence[float]) -> str:
    """Return mean ± deviation; one value alone has no deviation, and none is a dash."""
    if not values:
        return "-"
    return f"{mean(values):.1f} ± {stdev(values):.1f}" if len(values) > 1 else f"{values[0]:.1f}"


def rows_of(summaries: Sequence[Summary]) -> list[Row]:
    """Return one row per setting, best accuracy last.

    Raises:
        DataError: the runs cannot be compared: no scores, other images or labels, or one seed twice.
    """
    for summary in summaries:
        if "scores" not in summary:
            what = f"{summary['method']} with seed {summary['seed']}"
            raise DataError(f"a run of {what} has no scores. Give it the truth first: nngcd evaluate RUN --truth FILE")
    if len({summary["split_hash"] for summary in summaries}) > 1:
        counts = sorted({f"{s['n_labelled']:,} of {s['n_images']:,} images labelled" for s in summaries})
        detail = f" ({'; '.join(counts)})" if len(counts) > 1 else ""
        raise DataError(f"the runs have different images or labels{detail}, so their scores cannot be compared.")
    shown = [name for name in SETTINGS if name == "method" or len({summary[name] for summary in summaries}) > 1]
    groups: dict[tuple[Any, ...], list[Summary]] = defaultdict(list)
    for summary in summaries:
        groups[tuple(summary[name] for name in shown)].append(summary)
    rows = [_row(shown, values, group) for values, group in groups.items()]
    return sorted(rows, key=lambda row: mean(row.accuracy.values()))


def _row(shown: Sequence[str], values: Sequence[Any], group: Sequence[Summary]) -> Row:
    others = [f"{name} {value}" for name, value in zip(shown[1:], values[1:], strict=True)]
    name = ", ".join([str(values[0]), *others])
    seeds = [summary["seed"] for summary in group]
    if len(set(seeds)) < len(seeds):
        twice = next(seed for seed in seeds if seeds.count(seed) > 1)
        raise DataError(f"there are two runs of {name} with seed {twice}; leave one out.")
    ordered = sorted(group, key=lambda summary: summary["seed"])
    return Row(name, {s["seed"]: _scores(s) for s in ordered}, mean(s["seconds"] for s in group))


def _scores(summary: Summary) -> dict[str, float | None]:
    accuracy = summary["scores"]["accuracy"]
    return {"All": accuracy["all"], "Old": accuracy["old"], "New": accuracy["new"], "NMI": summary["scores"]["nmi"]}


def paired_differences(rows: Sequence[Row]) -> list[tuple[str, str, int]]:
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


def as_table(rows: Sequence[Row], form: Format) -> str:
    """Return the rows as a Markdown, CSV or LaTeX table."""
    head = ["method", *SCORES, "seeds", "seconds a run"]
    lines = [[row.name, *(row.cell(score) for score in SCORES), _seeds(row), f"{row.seconds:.0f}"] for row in rows]
    if form == "csv":
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([head, *lines])
        return text.getvalue().rstrip("\n")
    if form == "latex":
        escaped = [[cell.replace("_", r"\_").replace("±", r"$\pm$") for cell in line] for line in [head, *lines]]
        body = [" & ".join(line) + r" \\" for line in escaped]
        return "\n".join([rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}", r"\hline", body[0], r"\hline", *body[1:],
                          r"\hline", r"\end{tabular}"])  # fmt: skip
    rule = "|" + "---|" * len(head)
    return "\n".join([f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(line)} |" for line in lines)])


def _seeds(row: Row) -> str:
    return " ".join(str(seed) for seed in row.scores)
