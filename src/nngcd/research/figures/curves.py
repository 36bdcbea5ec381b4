"""Training as it went: every term of the loss by epoch, and the learning rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nngcd.report.charts import NOT_TERMS
from nngcd.research.figures.marks import COLOURS, LINES, MARKERS, nth
from nngcd.research.figures.page import FigurePage
from nngcd.research.figures.subject import UndrawableError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nngcd.research.drawing import Subject

N_MARKERS = 8


def draw(subjects: Sequence[Subject]) -> FigurePage:
    """Return a panel of loss terms for each trained run, all on one scale, and one with the learning rates.

    Raises:
        UndrawableError: none of the runs was trained.
    """
    trained = [subject for subject in subjects if subject.epochs]
    if not trained:
        untrained = " and ".join(subject.name for subject in subjects)
        raise UndrawableError(f"no epochs recorded for {untrained}: methods that only cluster are not trained")
    page = FigurePage(2.9 * (len(trained) + 1) + 1.4, 3.0, caption(subjects), shape=(1, len(trained) + 1))
    *of_terms, of_rates = page.panels[0]
    names = term_names(trained)
    for axes, subject in zip(of_terms, trained, strict=True):
        _terms(axes, subject.epochs, names)
        axes.set_title(subject.name)
    lows, highs = zip(*(axes.get_ylim() for axes in of_terms), strict=True)
    for axes in of_terms:
        axes.set_ylim(min(lows), max(highs))
    longest = max(of_terms, key=lambda axes: len(axes.lines))
    of_terms[0].set_ylabel("term of the loss, weighted")
    for index, subject in enumerate(trained):
        style: dict[str, Any] = {"color": COLOURS[index], "linestyle": LINES[index], "label": subject.name}
        of_rates.plot(*_series(subject.epochs, "learning_rate"), **style)
    of_rates.set_title("learning rate")
    of_rates.set_xlabel("epoch")
    of_rates.legend()
    page.figure.legend(*longest.get_legend_handles_labels(), loc="outside right upper", title="terms", handlelength=3.2)
    return page


def term_names(subjects: Sequence[Subject]) -> list[str]:
    """Return the terms of all runs in the order in which they were recorded, their sum last."""
    recorded = dict.fromkeys(name for s in subjects for line in s.epochs for name in line if name not in NOT_TERMS)
    return sorted(recorded, key=lambda name: name == "loss")


def caption(subjects: Sequence[Subject]) -> list[str]:
    """Return the caption: what is shown, what is not, and which runs have nothing to show."""
    what = (
        "Terms of the loss with their weights, mean over each epoch, and the learning rate. Accuracy by "
        "epoch is not recorded, because training never sees the true classes. Losses of different methods are "
        "different functions: their heights cannot be compared."
    )
    untrained = [f"{subject.name} is not trained." for subject in subjects if not subject.epochs]
    return [what, *untrained, *(subject.facts for subject in subjects)]


def _terms(axes: Axes, epochs: list[dict[str, Any]], names: list[str]) -> None:
    for index, name in enumerate(names):
        x, y = _series(epochs, name)
        if not x:
            continue
        every = max(1, len(x) // N_MARKERS)
        style: dict[str, Any] = {
            "color": nth(COLOURS, index), "linestyle": nth(LINES, index), "marker": nth(MARKERS, index)
        }  # fmt: skip
        width = 1.8 if name == "loss" else 1.0
        axes.plot(x, y, label=name, markersize=3.5, markevery=every, linewidth=width, **style)
    axes.set_xlabel("epoch")


def _series(epochs: list[dict[str, Any]], name: str) -> tuple[list[int], list[float]]:
    """Return the epochs, counted from 1, that recorded a value, and the values."""
    lines = [line for line in epochs if name in line]
    return [int(line["epoch"]) + 1 for line in lines], [float(line[name]) for line in lines]
