"""Lines, markers and colours that stay apart without colour: every one has a shape or a dash of its own."""

from __future__ import annotations

COLOURS = (
    *("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7"),
    *("#56b4e9", "#e69f00", "#7f7f7f", "#8c564b", "#4b0092"),
)
"""The colours of Okabe and Ito, which the colour-blind can tell apart, and three more."""
LINES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (8, 3)), (0, (3, 1)), (0, (4, 2, 1, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
HEAT = "cividis"
"""Its lightness rises evenly, so it reads in grey as in colour."""


def nth(choices: tuple[object, ...], index: int) -> object:
    """Return a mark, beginning again after the last."""
    return choices[index % len(choices)]
