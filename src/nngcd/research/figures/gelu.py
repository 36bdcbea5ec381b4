"""The activations of the projection head over their input, with their gradients: the paper's GELU figure and more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from nngcd.methods.heads import ACTIVATIONS, Activation
from nngcd.research.figures.marks import COLOURS, LINES, nth
from nngcd.research.figures.page import FigurePage

if TYPE_CHECKING:
    from nngcd.research.drawing import Subject

LIMIT, N_POINTS = 3.0, 601


def draw(subjects: Sequence[Subject]) -> FigurePage:
    """Return two panels: every activation that a projection head can have, and its gradient; it looks at no run."""
    page = FigurePage(8.4, 3.2, caption(), shape=(1, 2))
    of_values, of_gradients = page.panels[0]
    for index, (name, function) in enumerate(ACTIVATIONS.items()):
        x, y, gradient = curve(function)
        style: dict[str, Any] = {"color": nth(COLOURS, index), "linestyle": nth(LINES, index), "label": name}
        of_values.plot(x, y, **style)
        of_gradients.plot(x, gradient, **style)
    for axes, title in ((of_values, "activation"), (of_gradients, "gradient")):
        axes.axhline(0, color="0.75", linewidth=0.6, zorder=0)
        axes.set_title(title)
        axes.set_xlabel("input")
    of_values.set_ylim(-1, LIMIT)
    of_gradients.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=3.6)
    return page


def curve(function: Activation) -> tuple[list[float], list[float], list[float]]:
    """Return inputs, values and gradients of an activation."""
    x = torch.linspace(-LIMIT, LIMIT, N_POINTS, requires_grad=True)
    y = function(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    return x.tolist(), y.tolist(), gradient.tolist()


def caption() -> list[str]:
    """Return what is seen."""
    lowest = min(curve(ACTIVATIONS["gelu"])[1])
    what = (
        f"Activations of the projection head. GELU is not non-negative: its minimum is {lowest:.2f}. rep_relu has the "
        "values of ReLU and the gradient of GELU, so a neuron that is off can still learn. This figure is mathematics "
        "and does not depend on a run."
    )
    return [what]
