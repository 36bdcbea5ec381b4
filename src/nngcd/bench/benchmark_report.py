"""The table of a benchmark: our numbers beside the published ones, and the protocol all of them belong to."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pandas as pd

from nngcd.backbones.pretrainings import PRE_TRAININGS
from nngcd.bench.comparison import HEAD, Row, Summary
from nngcd.bench.grid import Cell
from nngcd.bench.published import Published, published_results
from nngcd.bench.tables import Report

ERRATUM = "†"


def benchmark_report(dataset: str, rows: Sequence[Row], summaries: Sequence[Summary]) -> Report:
    """Return the table of one data set: a row per method, with the number the paper prints for it."""
    backbone = summaries[0]["backbone"]
    pretraining = backbone if backbone in PRE_TRAININGS else "dino"
    published = [published_results(dataset, row.name, pretraining=pretraining) for row in rows]
    notes = [protocol_line(summaries), *([_published_line(summaries[0], pretraining)] if any(published) else [])]
    title = f"{dataset}: {', '.join(row.name for row in rows)}"
    return with_published(Report(title, HEAD, [row.cells for row in rows], notes), published)


def with_published(report: Report, published: Sequence[Published | None]) -> Report:
    """Return a table with one more column, the published numbers, and a note for each of them that is in error."""
    if not any(published):
        return report
    place = report.head.index("seeds")
    lines = [[*line[:place], _cell(one), *line[place:]] for line, one in zip(report.lines, published, strict=True)]
    errata = [f"{ERRATUM} {line[0]}: {one.erratum}" for line, one in zip(report.lines, published, strict=True)
              if one and one.erratum]  # fmt: skip
    head = [*report.head[:place], "published All / Old / New", *report.head[place:]]
    return dataclasses.replace(report, head=head, lines=lines, notes=[*report.notes, *errata])


def _cell(published: Published | None) -> str:
    if published is None:
        return "-"
    return " / ".join(f"{score:.1f}" for score in published.scores) + (ERRATUM if published.erratum else "")


def protocol_line(summaries: Sequence[Summary]) -> str:
    """Return what the numbers are: how they are scored, on which images, with which K, backbone, effort and preset."""
    first = summaries[0]
    k_words = "K estimated" if first["k_estimate"] else f"K = {first['k']} given"
    facts = [
        f"Protocol: {first['scores']['protocol']}",
        f"{first['scores']['n_scored']:,} images scored, {first['n_labelled']:,} labelled in "
        f"{first['n_known_categories']} classes (split {first['split_hash'][:8]})",
        k_words,
        f"backbone {first['backbone']}, effort {first['effort']}, preset {first['preset']}",
        "mean ± standard deviation over seeds",
    ]
    return "; ".join(facts) + "."


def _published_line(first: Summary, pretraining: str) -> str:
    line = f"Published: as printed in the NN-GCD paper, ViT-B/16 pre-trained by {pretraining}, last block trained."
    if first["backbone"] != pretraining or first["effort"] != "full":
        line += " Ours has another backbone or less training: the numbers cannot be compared, only their order."
    return line


def run_table(done: Sequence[tuple[Cell, Summary]]) -> pd.DataFrame:
    """Return one line per run, with plain numbers, for further work in other programs."""
    columns = ("method", "preset", "effort", "backbone", "seed", "k", "n_labelled", "n_unlabelled", "split_hash")
    lines = []
    for cell, summary in done:
        scores = summary["scores"]
        lines.append(
            {"variant": cell.variant.name}
            | {name: summary[name] for name in columns}
            | {part: scores["accuracy"][part] for part in ("all", "old", "new")}
            | {f"balanced_{part}": scores["balanced_accuracy"][part] for part in ("all", "old", "new")}
            | {"nmi": scores["nmi"], "ari": scores["ari"], "seconds": summary["seconds"]}
            | {f"peak_gb_{kind}": most for kind, most in summary.get("peak_gb", {}).items()}
            | {"run": str(cell.path)}
        )
    return pd.DataFrame(lines)
