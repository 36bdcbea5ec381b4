"""The picture of a number of categories: its score, its interval, and the number itself."""

from __future__ import annotations

import math
import textwrap
from html import escape

from nngcd.counting.estimate_k import KEstimate

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 80, 50
INK, CURVE, BAND = "#222", "#1f5fa8", "#cfe0f3"
N_TICKS, MOST_DOTS, N_LINES, LINE_LENGTH = 6, 60, 2, 105


def k_curve(estimate: KEstimate) -> str:
    """Return the curve of an estimate as SVG: score over K, the interval shaded, the estimate marked."""
    ks = [k for k, _ in estimate.curve]
    scores = [score for _, score in estimate.curve]
    x = Axis(min(ks), max(ks), LEFT, WIDTH - RIGHT)
    y = Axis(min(0.0, *scores), max(scores), HEIGHT - BOTTOM, TOP)
    points = " ".join(f"{x(k):.1f},{y(score):.1f}" for k, score in estimate.curve)
    at, is_sparse = x(estimate.k), len(ks) < MOST_DOTS
    low, high = x(estimate.low), x(estimate.high)
    title = f"{estimate.k} categories ({estimate.low} to {estimate.high}), confidence {estimate.confidence}"
    reason = textwrap.wrap(f"method {estimate.method}: {estimate.reason}", LINE_LENGTH)[:N_LINES]
    parts = [
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 26, title, size=18),
        *(_text(LEFT, 48 + 15 * row, line, size=12) for row, line in enumerate(reason)),
        f'<rect x="{low - 1:.1f}" y="{TOP}" width="{high - low + 2:.1f}" height="{y.length}" fill="{BAND}"/>',
        f'<polyline points="{points}" fill="none" stroke="{CURVE}" stroke-width="2"/>',
        *(f'<circle cx="{x(k):.1f}" cy="{y(s):.1f}" r="2.5" fill="{CURVE}"/>' for k, s in estimate.curve if is_sparse),
        f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{HEIGHT - BOTTOM}" stroke="{INK}" stroke-dasharray="5 4"/>',
        f'<path d="M{LEFT} {TOP} V{HEIGHT - BOTTOM} H{WIDTH - RIGHT}" fill="none" stroke="{INK}"/>',
        *(_text(x(tick), HEIGHT - BOTTOM + 18, f"{tick:g}", anchor="middle") for tick in x.ticks(whole=True)),
        *(_text(LEFT - 8, y(tick) + 4, f"{tick:.3g}", anchor="end") for tick in y.ticks()),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "number of categories K", anchor="middle"),
        _text(LEFT - 8, TOP - 14, "score", anchor="end"),
    ]
    label = escape(title, quote=True)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
    return "\n".join([head, *parts, "</svg>\n"])


class Axis:
    """From values to pixels."""

    def __init__(self, first: float, last: float, start: float, end: float) -> None:
        self.first, self.last = first, last if last > first else first + 1
        self.start, self.end, self.length = start, end, abs(end - start)

    def __call__(self, value: float) -> float:
        """Return where a value lies, in pixels."""
        return self.start + (value - self.first) / (self.last - self.first) * (self.end - self.start)

    def ticks(self, *, whole: bool = False) -> list[float]:
        """Return round values along the axis: multiples of 1, 2 or 5 times a power of ten."""
        rough = (self.last - self.first) / N_TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
        step = max(step, 1.0) if whole else step
        n_first, n_last = math.ceil(self.first / step), math.floor(self.last / step + 1e-9)
        return [n * step for n in range(n_first, n_last + 1)]


def _text(x: float, y: float, text: str, *, size: int = 13, anchor: str = "start") -> str:
    style = f'font-family="sans-serif" font-size="{size}" fill="{INK}" text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'
