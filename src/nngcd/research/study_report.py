"""The table of a study: one row per variant, and the paper's numbers where it prints any."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from nngcd.backbones.pretrainings import PRE_TRAININGS
from nngcd.research.benchmark_report import protocol_line, published_line, with_published
from nngcd.research.comparison import HEAD, SCORES, ComparisonRow, Summary, by_name_note, spread
from nngcd.research.figures.charts import score_chart
from nngcd.research.figures.page import FigurePage
from nngcd.research.published_results import published_ablation, published_pretraining
from nngcd.research.studies import SWEEPS, components_of
from nngcd.research.table_report import TableReport

ABLATION_NOTE = (
    "Published: Table V of the paper, a mean over CUB, Stanford Cars and Aircraft with a ViT-B/16 of DINO; only the "
    "gains over its first row, 56.1, can be compared with ours. All our rows use the same contrastive temperature."
)


def study_report(study: str, dataset: str, rows: Sequence[ComparisonRow], summaries: Sequence[Summary]) -> TableReport:
    """Return the table of a study by its name."""
    if study == "ablation":
        return ablation_report(dataset, rows, summaries)
    if study == "robustness":
        return robustness_report(dataset, rows, summaries)
    return sweep_report(study, dataset, rows, summaries)


def ablation_report(dataset: str, rows: Sequence[ComparisonRow], summaries: Sequence[Summary]) -> TableReport:
    """Return the ablation: the scores with some of the components, and the gain over none of them seed by seed."""
    published = published_ablation()
    base = next((row for row in rows if not components_of(row.name)), None)
    end = 1 + len(SCORES)
    head = ["components", *HEAD[1:end], "gain in All", *HEAD[end:]]
    lines = [[*row.cells[:end], _gain(row, base), *row.cells[end:]] for row in rows]
    notes = [protocol_line(summaries), ABLATION_NOTE, by_name_note(summaries)]
    report = TableReport(f"Ablation of {summaries[0]['method']} on {dataset}", head, lines, notes)
    return with_published(report, [published[components_of(row.name)] for row in rows])


def robustness_report(dataset: str, rows: Sequence[ComparisonRow], summaries: Sequence[Summary]) -> TableReport:
    """Return what is left of the scores on poorer data; every row has its own images or labels."""
    first = summaries[0]
    note = (
        f"Protocol: {first['scores']['protocol']}; backbone {first['backbone']}, effort {first['effort']}, preset "
        f"{first['preset']}; mean ± standard deviation over seeds. Images that lose their label are also scored."
    )
    title = f"{first['method']} on poorer data: {dataset}"
    return TableReport(
        title, ["what is different", *HEAD[1:]], [row.cells for row in rows], [note, by_name_note(summaries)]
    )


def sweep_report(study: str, dataset: str, rows: Sequence[ComparisonRow], summaries: Sequence[Summary]) -> TableReport:
    """Return the table of one setting's values."""
    sweep = SWEEPS[study]
    title = f"{sweep.title} ({sweep.setting}): {summaries[0]['method']} on {dataset}"
    notes = [protocol_line(summaries), by_name_note(summaries)]
    report = TableReport(title, [sweep.axis, *HEAD[1:]], [row.cells for row in rows], notes)
    if study != "pretraining":
        return report
    published = [published_pretraining(dataset, row.name) for row in rows]
    if not any(published):
        return report
    note = published_line("NN-GCD, Table VI", dataset, summaries, tuple(PRE_TRAININGS))
    return with_published(dataclasses.replace(report, notes=[*report.notes, note]), published)


def study_chart(study: str, report: TableReport, rows: Sequence[ComparisonRow]) -> FigurePage:
    """Return the figure of a study: accuracy over the values of its setting, or over the choices of components."""
    names = [row.name for row in rows]
    places = _numbers(names)
    scores = {part: [row.values(part) for row in rows] for part in ("All", "Old", "New")}
    axis = SWEEPS[study].axis if study in SWEEPS else {"ablation": "components"}.get(study, "what is different")
    return score_chart(axis, names, places, scores, caption=[f"{report.title}.", report.notes[0]])


def _numbers(names: Sequence[str]) -> list[float] | None:
    try:
        return [float(name) for name in names]
    except ValueError:
        return None


def _gain(row: ComparisonRow, base: ComparisonRow | None) -> str:
    if base is None or row is base:
        return ""
    return spread([row.accuracy[seed] - base.accuracy[seed] for seed in row.accuracy if seed in base.accuracy])
