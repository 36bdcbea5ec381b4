"""The table of a benchmark: our numbers next to the published ones, and the protocol of all of them."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Sequence

import pandas as pd

from nngcd.backbones import RANDOM
from nngcd.backbones.pretrainings import PRE_TRAININGS
from nngcd.datasets.published_splits import published_split
from nngcd.research.comparison import HEAD, ComparisonRow, Summary, by_name_note
from nngcd.research.grid import Cell
from nngcd.research.published_results import Published, published_results
from nngcd.research.table_report import TableReport

ERRATUM = "†"
MOST_NAMED = 6
"""Methods that a title names; of more it says how many there are."""
COST_NOTE = (
    "processor minutes: of one run, all cores together, not counting the kept views, which methods share; peak GB: the "
    "most memory a run used."
)
SELECTION_NOTE = (
    "of the epoch: the one that the published numbers are from, judging by the authors' code. Best on hidden labels: "
    "chosen by the true labels of the unlabelled images, which are also scored; best on old test: chosen by test "
    "images of old classes. Ours are always from the last epoch."
)


def benchmark_report(
    dataset: str, rows: Sequence[ComparisonRow], summaries: Sequence[Summary], *, without: Sequence[str] = ()
) -> TableReport:
    """Return the table of one data set: a row per method, with the number the paper prints for it."""
    names, preset, backbone = [*(row.name for row in rows), *without], summaries[0]["preset"], summaries[0]["backbone"]
    pretraining = backbone if backbone in PRE_TRAININGS else "dino"
    published = [published_results(dataset, name, pretraining=pretraining) for name in names]
    lines = [*(row.cells for row in rows), *(_line_without(name, preset) for name in without)]
    notes = [protocol_line(summaries), *_backbone_lines(summaries), *_feature_lines(summaries)]
    notes += [f"{name} has {_why_without(preset)}: --preset paper has its paper's settings." for name in without]
    if any(published):
        source = "; ".join(dict.fromkeys(one.source for one in published if one))
        notes.append(published_line(f"{source}; pre-trained by {pretraining}", dataset, summaries, [pretraining]))
    notes += [by_name_note(summaries), COST_NOTE]
    title = f"{dataset}: {', '.join(names) if len(names) <= MOST_NAMED else f'{len(names)} methods'}"
    return with_published(TableReport(title, HEAD, lines, notes), published)


def _line_without(name: str, preset: str) -> list[str]:
    """Return the line of a method that does not have a preset."""
    cells = ["-"] * len(HEAD)
    cells[HEAD.index("method")], cells[HEAD.index("seeds")] = name, _why_without(preset)
    return cells


def _why_without(preset: str) -> str:
    return "no public code" if preset == "official" else f"no preset {preset}"


def _backbone_lines(summaries: Sequence[Summary]) -> list[str]:
    """Return which methods have which backbone, where they differ: a method may need one of a certain kind."""
    methods: dict[str, list[str]] = defaultdict(list)
    for summary in summaries:
        if summary["method"] not in methods[_backbone(summary)]:
            methods[_backbone(summary)].append(summary["method"])
    if len(methods) == 1:
        return []
    parts = [f"{backbone} for {', '.join(names)}" for backbone, names in methods.items()]
    return [f"Backbones: {'; '.join(parts)}. Numbers with different backbones do not compare methods."]


def _feature_lines(summaries: Sequence[Summary]) -> list[str]:
    """Return which methods are given more than the plain features of their backbone, where others are not."""
    made: dict[str, dict[str, None]] = defaultdict(dict)
    for summary in summaries:
        made[_made_of_features(summary)][summary["method"]] = None
    if len(made) == 1:
        return []
    parts = [f"{_and(methods)} learn{'s' * (len(methods) == 1)} on {words}" for words, methods in made.items() if words]
    return [f"By their presets, {'; '.join(parts)}: this explains part of the difference (docs/results/parts.md)."]


def _and(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _made_of_features(summary: Summary) -> str:
    """Return what was made of the frozen features, in words; nothing of the plain ones."""
    sizes, directions = summary["n_sizes"], summary["whitened_features"]
    words = [f"the mean of {sizes} sizes"] * (sizes > 1) + [f"{directions} whitened directions"] * bool(directions)
    return " and ".join(words)


def on_one_backbone(rows: Sequence[ComparisonRow], summaries: Sequence[Summary]) -> list[ComparisonRow]:
    """Return the rows of the methods that have the backbone of the first one: those that can be compared."""
    methods = {summary["method"] for summary in summaries if _backbone(summary) == _backbone(summaries[0])}
    return [row for row in rows if row.name in methods]


def _backbone(summary: Summary) -> str:
    return f"{summary['backbone']}{' with random weights' * (summary['weights'] == str(RANDOM))}"


def with_published(report: TableReport, published: Sequence[Published | None]) -> TableReport:
    """Return a table with the published numbers and the epoch they are of, and a note for each that is in error."""
    if not any(published):
        return report
    place = report.head.index("seeds")
    lines = [[*line[:place], *_cells(one), *line[place:]] for line, one in zip(report.lines, published, strict=True)]
    errata = [f"{ERRATUM} {line[0]}: {one.erratum}" for line, one in zip(report.lines, published, strict=True)
              if one and one.erratum]  # fmt: skip
    head = [*report.head[:place], "published All / Old / New", "of the epoch", *report.head[place:]]
    return dataclasses.replace(report, head=head, lines=lines, notes=[*report.notes, SELECTION_NOTE, *errata])


def _cells(published: Published | None) -> tuple[str, str]:
    if published is None:
        return "-", "-"
    scores = " / ".join(f"{score:.1f}" for score in published.scores)
    return scores + (ERRATUM if published.erratum else ""), published.selection


def protocol_line(summaries: Sequence[Summary]) -> str:
    """Return what the numbers are: how they are scored, on which images, with which K, backbone, effort and preset.

    What differs between the rows is theirs to say.
    """
    first = summaries[0]
    facts = [
        f"Protocol: {first['scores']['protocol']}",
        f"{first['scores']['n_scored']:,} images scored, {first['n_labelled']:,} labelled in "
        f"{first['n_known_categories']} classes (split {first['split_hash'][:8]})",
    ]
    if all(summary["k_estimate"] for summary in summaries):
        facts.append("K estimated")
    elif _is_shared("k", summaries) and not any(summary["k_estimate"] for summary in summaries):
        facts.append(f"K = {first['k']} given")
    facts += [f"{name} {first[name]}" for name in ("backbone", "effort", "preset") if _is_shared(name, summaries)]
    return "; ".join([*facts, "mean ± standard deviation over seeds"]) + "."


def published_line(source: str, dataset: str, summaries: Sequence[Summary], backbones: Sequence[str]) -> str:
    """Return where published numbers come from, and why ours cannot be compared with them, if so."""
    first, published = summaries[0], published_split(dataset)
    n_right = published.n_labelled, published.n_unlabelled
    n_found = first["n_labelled"], first["n_unlabelled"]
    rounding = published.counts_rounded_to - 1
    reasons = {
        "another backbone": any(summary["backbone"] not in backbones for summary in summaries),
        "less training": first["effort"] != "full",
        f"K = {first['k']} instead of {published.n_classes}": first["k"] != published.n_classes,
        "other images": any(abs(a - b) > rounding for a, b in zip(n_found, n_right, strict=True)),
        "a stratified draw": "stratified" in first["scores"]["protocol"],
    }
    differences = [reason for reason, holds in reasons.items() if holds]
    line = f"Published: {source}, ViT-B, last one to three blocks trained."
    return f"{line} Ours are not comparable: {', '.join(differences)}." if differences else line


def _is_shared(name: str, summaries: Sequence[Summary]) -> bool:
    return len({summary[name] for summary in summaries}) == 1


def run_table(done: Sequence[tuple[Cell, Summary]]) -> pd.DataFrame:
    """Return one line per run, with plain numbers, for further work in other programs."""
    columns = ("method", "preset", "effort", "backbone", "seed", "k", "n_labelled", "n_unlabelled", "split_hash")
    lines = []
    for cell, summary in done:
        scores = summary["scores"]
        lines.append(
            {"variant": str(cell.variant)}
            | {name: summary[name] for name in columns}
            | {part: scores["accuracy"][part] for part in ("all", "old", "new")}
            | {f"balanced_{part}": scores["balanced_accuracy"][part] for part in ("all", "old", "new")}
            | {f"by_name_{part}": scores["by_name"][part] for part in ("all", "old", "new")}
            | {"called_known": scores["called_known"]["share"]}
            | {"truly_known": scores["called_known"]["true_share"]}
            | {"nmi": scores["nmi"], "ari": scores["ari"], "seconds": summary["seconds"]}
            | {f"processor_seconds_{part}": value for part, value in summary["processor_seconds"].items()}
            | {f"peak_gb_{kind}": most for kind, most in summary["peak_gb"].items()}
            | {"run": str(cell.path)}
        )
    return pd.DataFrame(lines)
