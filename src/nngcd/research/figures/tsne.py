"""t-SNE of the features of a few classes: filled markers are old classes, hollow ones new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nngcd.core.seeds import numpy_generator
from nngcd.research.figures.marks import COLOURS, MARKERS, nth
from nngcd.research.figures.page import FigurePage
from nngcd.research.figures.subject import Grouping, UndrawableError, chosen_classes
from nngcd.results.map import FEWEST_IMAGES, PERPLEXITY, embed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nngcd.research.drawing import Subject

SEED = 0
N_CLASSES_EACH, IMAGES_PER_CLASS = 5, 200
PANEL, LEGEND = 3.6, 2.6


def draw(subjects: Sequence[Subject]) -> FigurePage:
    """Return one map per run, each with its own t-SNE: places and directions of two maps cannot be compared."""
    shown = [shown_images(s.grouping, s.wanted_classes) for s in subjects]
    maps = [embed(s.features_nd[rows]) for s, rows in zip(subjects, shown, strict=True)]
    n_legends = 1 if have_same_classes(subjects, shown) else len(maps)
    page = FigurePage(PANEL * len(maps) + LEGEND * n_legends, PANEL, caption(subjects, shown), shape=(1, len(maps)))
    for axes, subject, rows, map_n2 in zip(page.panels[0], subjects, shown, maps, strict=True):
        _scatter(axes, map_n2, subject.grouping, rows)
        axes.set_title(subject.name)
    for axes in page.panels[0][-n_legends:]:
        axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    return page


def have_same_classes(subjects: Sequence[Subject], shown: Sequence[NDArray[np.int64]]) -> bool:
    """Return whether a number means the same class in all maps; found categories of two runs share only their names."""
    legends = {tuple(_labels(s.grouping, rows)) for s, rows in zip(subjects, shown, strict=True)}
    return len(subjects) == 1 or (len(legends) == 1 and all(subject.grouping.are_true for subject in subjects))


def shown_images(grouping: Grouping, wanted: Sequence[str]) -> NDArray[np.int64]:
    """Return the images of the chosen classes, of a large class a seeded sample."""
    generator = numpy_generator(SEED, "t-SNE")
    rows = []
    for class_ in chosen_classes(grouping, wanted, N_CLASSES_EACH):
        members = np.flatnonzero(grouping.class_n == class_)
        rows.append(np.sort(generator.permutation(members)[:IMAGES_PER_CLASS]))
    shown: NDArray[np.int64] = np.concatenate(rows)
    if len(shown) < FEWEST_IMAGES:
        raise UndrawableError(f"t-SNE needs at least {FEWEST_IMAGES} images, and the chosen classes have {len(shown)}")
    return shown


def caption(subjects: Sequence[Subject], shown: Sequence[NDArray[np.int64]]) -> list[str]:
    """Return which images are shown, and how."""
    counts = [
        f"{len(rows):,} images of {len(_labels(s.grouping, rows))} classes by {s.grouping.words}"
        for s, rows in zip(subjects, shown, strict=True)
    ]
    are_same = have_same_classes(subjects, shown)
    by_run = "; ".join(f"{s.name}: {count}" for s, count in zip(subjects, counts, strict=True))
    what = (
        f"t-SNE of the features of {counts[0] if are_same else by_run} (scikit-learn, unit length, perplexity "
        f"{PERPLEXITY:g} or fewer, seed {SEED}). Filled markers: old classes; hollow: new ones; the numbers stand at "
        "the medians. Every map has its own axes; compare only which points are close."
    )
    if not are_same:
        what += " Each map has its own legend: new categories of two runs, such as new-001, differ."
    return [what, *(subject.facts for subject in subjects)]


def _labels(grouping: Grouping, rows: NDArray[np.int64]) -> list[str]:
    return [
        f"{number} {'old' if class_ < grouping.n_old else 'new'}: {grouping.names[class_]}"
        for number, class_ in enumerate(np.unique(grouping.class_n[rows]), start=1)
    ]


def _scatter(axes: Axes, map_n2: NDArray[np.float32], grouping: Grouping, rows: NDArray[np.int64]) -> None:
    classes, labels = np.unique(grouping.class_n[rows]), _labels(grouping, rows)
    for index, (class_, label) in enumerate(zip(classes, labels, strict=True)):
        points = map_n2[grouping.class_n[rows] == class_]
        colour = str(nth(COLOURS, index))
        marker: Any = nth(MARKERS, index)
        face = colour if class_ < grouping.n_old else "none"
        x, y = points.T
        axes.scatter(x, y, s=13, marker=marker, facecolors=face, edgecolors=colour, linewidths=0.8, label=label)
        box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": colour, "linewidth": 0.6}
        axes.text(
            float(np.median(x)), float(np.median(y)), str(index + 1), fontsize=7, ha="center", va="center", bbox=box
        )
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set(visible=True, color="0.7")
