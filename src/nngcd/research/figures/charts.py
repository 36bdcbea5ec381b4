"""Charts of several runs: scores over the values of a setting, and accuracy against cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from nngcd.research.comparison import ComparisonRow
from nngcd.research.figures.marks import COLOURS, LINES, MARKERS
from nngcd.research.figures.page import FigurePage

WIDTH_OF_A_NAME = 0.62
LEAST_MINUTES = 0.01
NAME_SIZE, NAME_HEIGHT = 7, 0.042
"""Points, and the share of the panel's height that a name takes."""


def score_chart(
    axis: str, names: Sequence[str], places: Sequence[float] | None, scores: Mapping[str, Sequence[Sequence[float]]], *,
    caption: list[str],
) -> FigurePage:  # fmt: skip
    """Return one panel: a line per score over numbers (`places`), or dots over names, with the scores of all seeds."""
    width = 4.2 if places else max(4.2, WIDTH_OF_A_NAME * len(names) + 1.4)
    page = FigurePage(width, 3.0, caption)
    axes = page.panels[0][0]
    for index, (score, values) in enumerate(scores.items()):
        # Names have no order, so no line joins them; their dots stand a little apart.
        x = list(places) if places else [place + 0.12 * (index - 1) for place in range(len(names))]
        means = [mean(seeds) if seeds else math.nan for seeds in values]
        deviations = [stdev(seeds) if len(seeds) > 1 else 0.0 for seeds in values]
        style: dict[str, Any] = {
            "color": COLOURS[index], "marker": MARKERS[index], "linestyle": LINES[index] if places else "none"
        }  # fmt: skip
        axes.errorbar(x, means, deviations, capsize=2.5, label=score, markersize=4.5, **style)
    if not places:
        labels = [name.replace("+", " +\n") for name in names]
        axes.set_xticks(range(len(names)), labels, rotation=30, ha="right")
    axes.set_xlabel(axis)
    axes.set_ylabel("accuracy in per cent")
    axes.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return page


def cost_chart(rows: Sequence[ComparisonRow], *, caption: list[str]) -> FigurePage:
    """Return one panel: mean accuracy over the processor minutes of a run, with the names in a column on the right."""
    page = FigurePage(6.4, 4.2, caption)
    axes = page.panels[0][0]
    shown = sorted((mean(row.accuracy.values()), max(row.processor_minutes, LEAST_MINUTES), row.name) for row in rows)
    axes.scatter([minutes for _, minutes, _ in shown], [accuracy for accuracy, _, _ in shown], s=18, color=COLOURS[1])
    axes.set_xscale("log")
    axes.set_xlabel("processor minutes of a run")
    axes.set_ylabel("accuracy on all unlabelled images, per cent")
    low, high = axes.get_ylim()
    place = 0.0
    for number, (accuracy, minutes, name) in enumerate(shown):
        # As high as its dot where there is room: above the name before, and with space for those after it.
        highest = 1 - NAME_HEIGHT * (len(shown) - 1 - number)
        place = min(max((accuracy - low) / (high - low), place), max(highest, place))
        axes.annotate(
            name, (minutes, accuracy), xytext=(1.03, place), textcoords="axes fraction", va="center", size=NAME_SIZE,
            arrowprops={"arrowstyle": "-", "color": "#cccccc", "linewidth": 0.5}, annotation_clip=False,
        )  # fmt: skip
        place += NAME_HEIGHT
    return page
