"""Line charts as SVG that takes its colours from the page, light or dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from nngcd.counting.curve import Axis
from nngcd.counting.estimate_k import KEstimate

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 14, 44
N_STYLES = 8
"""Lines that style.css tells apart, by colour and by dashes."""
MOST_DOTS = 60

Point = tuple[float, float]

NOT_TERMS = ("epoch", "learning_rate", "seconds", "processor_seconds")


@dataclass(frozen=True, slots=True)
class Line:
    """A named series of points."""

    name: str
    points: tuple[Point, ...]


def k_chart(estimate: KEstimate) -> str:
    """Return the score over K with the interval shaded and the estimate marked."""
    line = Line("score", tuple((float(k), score) for k, score in estimate.curve))
    x, y = _axes([line])
    low, high, at = x(estimate.low), x(estimate.high), x(estimate.k)
    back = [f'<rect class="band" x="{low - 2:.1f}" y="{TOP}" width="{high - low + 4:.1f}" height="{y.length}"/>']
    front = [f'<path class="mark" d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}"/>']
    title = (
        f"Score of each number of categories. {estimate.k} is best, the interval is {estimate.low} to {estimate.high}."
    )
    return _svg(title, [line], "number of categories", back=back, front=front)


def loss_lines(epochs: Sequence[dict[str, Any]]) -> list[Line]:
    """Return every term of the loss by epoch, counted from 1, their sum first, without values that are not numbers."""
    names = dict.fromkeys(name for epoch in epochs for name in epoch if name not in NOT_TERMS)
    lines = []
    for name in sorted(names, key=lambda name: name != "loss"):
        values = [(epoch["epoch"] + 1, epoch[name]) for epoch in epochs if name in epoch]
        points = ((float(x), float(y)) for x, y in values if isinstance(y, int | float) and math.isfinite(y))
        lines.append(Line(name, tuple(points)))
    return lines


def loss_chart(lines: Sequence[Line]) -> str:
    """Return the terms of the loss by epoch."""
    return _svg("Terms of the loss by epoch.", lines, "epoch")


def legend(lines: Sequence[Line]) -> str:
    """Return the names of the lines as HTML, each next to a piece of its line and with its last value."""
    return "".join(
        f'<li><svg class="key" viewBox="0 0 28 8" aria-hidden="true"><path class="line s{index % N_STYLES}" '
        f'd="M1 4H27"/></svg>{escape(line.name.replace("_", " "))} '
        f'<span class="quiet">{line.points[-1][1]:.3g}</span></li>'
        for index, line in enumerate(lines)
        if line.points
    )


def _axes(lines: Sequence[Line]) -> tuple[Axis, Axis]:
    xs, ys = zip(*(point for line in lines for point in line.points), strict=True)
    return Axis(min(xs), max(xs), LEFT, WIDTH - RIGHT), Axis(min(0.0, *ys), max(ys), HEIGHT - BOTTOM, TOP)


def _svg(title: str, lines: Sequence[Line], x_name: str, *, back: Sequence[str] = (), front: Sequence[str] = ()) -> str:
    x, y = _axes(lines)
    grid = [
        f'<path class="grid" d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}"/>'
        f'<text x="{LEFT - 8}" y="{y(tick) + 4.5:.1f}" text-anchor="end">{tick + 0.0:.3g}</text>'
        for tick in y.ticks()
    ]
    ticks = [
        f'<text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 19}" text-anchor="middle">{tick:g}</text>'
        for tick in x.ticks(whole=True)
    ]
    drawn = [_line(line, index, x, y) for index, line in enumerate(lines)]
    name = f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_name)}</text>'
    head = f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
    return "\n".join([head, *back, *grid, *ticks, *drawn, *front, name, "</svg>"])


def _line(line: Line, index: int, x: Axis, y: Axis) -> str:
    places = [(x(at), y(value)) for at, value in line.points]
    path = " ".join(f"{across:.1f},{down:.1f}" for across, down in places)
    dots = "".join(f'<circle cx="{across:.1f}" cy="{down:.1f}" r="2.6"/>' for across, down in places)
    is_sparse = len(places) < MOST_DOTS and index == 0
    return f'<g class="line s{index % N_STYLES}"><polyline points="{path}"/>{dots if is_sparse else ""}</g>'
