"""Scores over the values of a setting: mean and deviation over seeds, of all, old and new classes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from nngcd.research.figures.marks import COLOURS, LINES, MARKERS
from nngcd.research.figures.page import FigurePage

WIDTH_OF_A_NAME = 0.62


def score_chart(
    axis: str, names: Sequence[str], places: Sequence[float] | None, scores: Mapping[str, Sequence[Sequence[float]]], *,
    caption: list[str],
) -> FigurePage:  # fmt: skip
    """Return one panel: a line per score over numbers, or dots over names.

    Args:
        axis: what the setting is called.
        names: the values of the setting as text.
        places: the same as numbers, drawn to scale; None when they are not numbers.
        scores: by their names, for every value the scores of all its seeds.
        caption: what is seen, paragraph by paragraph.
    """
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
