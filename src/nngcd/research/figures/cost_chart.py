"""Accuracy against cost: a dot per method."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from nngcd.research.comparison import ComparisonRow
from nngcd.research.figures.marks import COLOURS
from nngcd.research.figures.page import FigurePage

LEAST_MINUTES = 0.01
NAME_SIZE, NAME_HEIGHT = 7, 0.042
"""Points, and the share of the panel's height that a name takes."""


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
