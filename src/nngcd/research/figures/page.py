"""The page a figure stands on: axes above, a caption below, and the bytes of a file that are the same every time."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from nngcd.core.errors import ResourceError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = ("svg", "pdf", "png")
CAPTION_SIZE = 7.5
CHARACTERS_PER_INCH, LINE_HEIGHT = 18.5, 0.145
# Text stays text in SVG: it can be searched, read aloud and copied. The salt makes the ids of two drawings equal.
STYLE = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "nngcd",
    "pdf.fonttype": 42,
}


def check_matplotlib() -> None:
    """Raise `ResourceError` if matplotlib, which is an extra, is not installed."""
    if find_spec("matplotlib") is None:
        raise ResourceError('figures need matplotlib. Run: pip install "nngcd[plot]"')


@contextmanager
def plain_style() -> Iterator[None]:
    """Draw and save in matplotlib's default style and ours, whatever the reader's own settings are."""
    check_matplotlib()
    # Imported here, as everywhere in this package: matplotlib is an extra.
    from matplotlib import style

    with style.context(["default", STYLE]):
        yield


class FigurePage:
    """A figure of some panels, side by side or in rows, with its caption under it; sizes are in inches."""

    def __init__(self, width: float, height: float, caption: list[str], *, shape: tuple[int, int] = (1, 1)) -> None:
        from matplotlib.figure import Figure

        self.caption = caption
        wrapped = [textwrap.fill(part, int(width * CHARACTERS_PER_INCH)) for part in caption]
        n_lines = sum(text.count("\n") + 1 for text in wrapped)
        below = (n_lines + 1) * LINE_HEIGHT
        self.figure = Figure(figsize=(width, height + below), layout="constrained")
        body, foot = np.asarray(self.figure.subfigures(2, 1, height_ratios=[height, below]))
        self.panels: list[list[Axes]] = [list(row) for row in body.subplots(*shape, squeeze=False)]
        foot.text(0.012, 0.98, "\n".join(wrapped), va="top", ha="left", size=CAPTION_SIZE, linespacing=1.3)

    def render(self, form: str, dpi: int) -> bytes:
        """Return the figure as the bytes of a file: `svg`, `pdf` or `png`; without date, so they can be compared."""
        dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}
        file = io.BytesIO()
        self.figure.savefig(file, format=form, dpi=dpi, metadata=dates[form])
        return file.getvalue()
