"""The activations of runs compared: how many axes are used, how the entries are spread, how sparse they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from nngcd.methods.heads import negative_mass
from nngcd.research.figures.marks import COLOURS, LINES
from nngcd.research.figures.page import FigurePage
from nngcd.results.map import unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nngcd.research.drawing import Subject

SMALL = 0.01
"""An entry counts as zero below this share of its image's largest, in absolute value."""
N_BINS = 120
HATCHES = ("", "////", "....")


@dataclass(frozen=True, slots=True)
class Profile:
    """Statistics of the unit-length activations of one run."""

    mean_d: NDArray[np.float64]
    """Mean absolute entry of each axis, largest first."""
    zeros: float
    """Share of entries that count as zero."""
    negative_entries: float
    negative_mass: float
    """Share of the sum of absolute values that negative entries hold."""
    sparsity: float
    """Hoyer's sparsity, mean over images: 0 where all entries are equal in size, 1 where one alone is not zero."""


def profile(values_nd: NDArray[Any]) -> Profile:
    """Return the profile of activations of any length; they are compared at unit length, as the losses see them."""
    unit_nd = unit(values_nd)
    size_nd = np.abs(unit_nd)
    root = np.sqrt(unit_nd.shape[1])
    l1_n, l2_n = size_nd.sum(axis=1), np.linalg.norm(unit_nd, axis=1)
    sparsity_n = (root - l1_n / np.where(l2_n > 0, l2_n, 1)) / max(root - 1, 1e-9)
    return Profile(
        mean_d=np.sort(size_nd.mean(axis=0, dtype=np.float64))[::-1],
        zeros=float((size_nd <= SMALL * size_nd.max(axis=1, keepdims=True)).mean()),
        negative_entries=float((unit_nd < 0).mean()),
        negative_mass=negative_mass(torch.from_numpy(unit_nd)),
        sparsity=float(sparsity_n.mean()),
    )


def draw(subjects: Sequence[Subject]) -> FigurePage:
    """Return three panels: the axes by their mean size, the entries by their value, and four numbers of each run."""
    values = [subject.activations.values_nd for subject in subjects]
    profiles, units = [profile(values_nd) for values_nd in values], [unit(values_nd) for values_nd in values]
    # Bins of one width for all runs: the share of entries in a bin grows with its width.
    ends = (min(float(unit_nd.min()) for unit_nd in units), max(float(unit_nd.max()) for unit_nd in units))
    page = FigurePage(9.6, 2.9, caption(subjects), shape=(1, 3))
    axes_of_means, axes_of_entries, axes_of_shares = page.panels[0]
    for index, (subject, found, unit_nd) in enumerate(zip(subjects, profiles, units, strict=True)):
        style: dict[str, Any] = {"color": COLOURS[index], "linestyle": LINES[index], "label": subject.name}
        axes_of_means.plot(np.arange(1, len(found.mean_d) + 1), found.mean_d, **style)
        counts, edges = np.histogram(unit_nd, bins=N_BINS, range=ends)
        axes_of_entries.stairs(counts / counts.sum(), edges, **style)
    _name(axes_of_means, "axes, from the most used", "mean size of entry", "use of the axes")
    _name(axes_of_entries, "entry at unit length", "share of entries (log)", "spread of the entries")
    axes_of_entries.set_yscale("log")
    axes_of_means.set_ylim(bottom=0)
    _bars(axes_of_shares, [subject.name for subject in subjects], profiles)
    axes_of_means.legend()
    return page


def caption(subjects: Sequence[Subject]) -> list[str]:
    """Return what is drawn of each run and what the numbers mean."""
    drawn = ", ".join(
        f"{s.name}: {s.activations.what}, {s.activations.values_nd.shape[1]} axes, {len(s.activations.values_nd):,} "
        "images"
        for s in subjects
    )
    what = (
        f"Activations at unit length ({drawn}). Left: mean absolute entry of each axis. Middle: histogram of all "
        f"entries, {N_BINS} bins. Right: zeros = entries below {SMALL:g} of their image's largest; negative = entries "
        "below 0; negative mass = their share of the sum of absolute values; sparsity = Hoyer's, mean over images."
    )
    return [what, *(subject.facts for subject in subjects)]


def _name(axes: Axes, x: str, y: str, title: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title)


def _bars(axes: Axes, names: list[str], profiles: list[Profile]) -> None:
    titles = ("zeros", "negative", "negative\nmass", "sparsity")
    width = 0.8 / len(profiles)
    for index, (name, found) in enumerate(zip(names, profiles, strict=True)):
        heights = (found.zeros, found.negative_entries, found.negative_mass, found.sparsity)
        at = np.arange(len(titles)) + (index - (len(profiles) - 1) / 2) * width
        bars = axes.bar(at, heights, width, label=name, color="white", edgecolor=COLOURS[index], hatch=HATCHES[index])
        axes.bar_label(bars, [f"{height:.2f}" for height in heights], fontsize=7)
    axes.set_xticks(range(len(titles)), titles)
    axes.set_ylim(0, 1.1)
    axes.set_title("shares")
    axes.legend()
