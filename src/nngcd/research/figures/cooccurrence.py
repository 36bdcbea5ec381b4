"""The co-occurrence matrix A-bar as a picture: cosine similarities of all images, old classes before new ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nngcd.metrics.cooccurrence import cooccurrence_image, cooccurrence_statistics
from nngcd.research.figures.marks import HEAT
from nngcd.research.figures.page import FigurePage
from nngcd.research.figures.subject import Grouping

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nngcd.research.drawing import Subject

N_PIXELS = 256
PANEL = 3.4


def draw(subjects: Sequence[Subject]) -> FigurePage:
    """Return the matrices of the runs on one scale of colour; of many images a pixel is the mean over a patch."""
    images = [cooccurrence_image(s.features_nd, s.grouping.order, N_PIXELS) for s in subjects]
    page = FigurePage(PANEL * len(images) + 0.7, PANEL + 0.2, caption(subjects), shape=(1, len(images)))
    limits = min(float(image.min()) for image in images), max(float(image.max()) for image in images)
    for axes, subject, image in zip(page.panels[0], subjects, images, strict=True):
        _show(axes, image, subject.grouping, limits)
        axes.set_title(subject.name)
    drawn = page.panels[0][-1].images[0]
    page.figure.subfigs[0].colorbar(drawn, ax=page.panels[0], label="cosine similarity", shrink=0.85)
    return page


def caption(subjects: Sequence[Subject]) -> list[str]:
    """Return what is seen and the statistics of each matrix, which are of single pairs and not of patches."""
    first = subjects[0]
    what = (
        f"Co-occurrence matrix of {len(first.features_nd):,} images, labelled ones included: cosine similarities of "
        f"their features, ordered by {first.grouping.words}, old before new; a pixel is the mean over a patch. "
        "Wanted: near 1 within a class, near 0 between classes."
    )
    return [what, *(_statistics(subject) for subject in subjects), *(subject.facts for subject in subjects)]


def _statistics(subject: Subject) -> str:
    grouping = subject.grouping
    found = cooccurrence_statistics(subject.features_nd, grouping.class_n, grouping.is_old_n)
    means = {
        "within old classes": found.old_within,
        "within new": found.new_within,
        "between old": found.old_between,
        "between new": found.new_between,
        "old to new": found.old_new,
    }
    # Added to 0, what rounds to -0.00 loses its sign.
    words = ", ".join(f"{name} {round(mean, 2) + 0.0:.2f}" for name, mean in means.items())
    return (
        f"{subject.name}, means over pairs: {words}. Below 0.1 in size: {found.old_sparsity:.0%} of the pairs between "
        f"old classes, {found.new_sparsity:.0%} between new ones. Negative mass {found.negative_mass:.1%}, effective "
        f"rank {found.effective_rank:.0f}."
    )


def _show(axes: Axes, image: NDArray[np.float64], grouping: Grouping, limits: tuple[float, float]) -> None:
    axes.imshow(image, cmap=HEAT, vmin=limits[0], vmax=limits[1], interpolation="nearest")
    border = float(grouping.is_old_n.mean()) * len(image)
    for line in (axes.axhline, axes.axvline):
        line(border - 0.5, color="white", linewidth=0.8, linestyle="--")
    parts = [(0.0, border, "old"), (border, float(len(image)), "new")]
    shown = [((start + end) / 2 - 0.5, name) for start, end, name in parts if end > start]
    axes.set_xticks([at for at, _ in shown], [name for _, name in shown])
    axes.set_yticks([at for at, _ in shown], [name for _, name in shown], rotation=90, va="center")
    axes.tick_params(length=0)
