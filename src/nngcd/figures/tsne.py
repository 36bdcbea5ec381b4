"""t-SNE of the features of a few classes: filled markers are old classes, hollow ones new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nngcd.core.seeds import derive, numpy_generator
from nngcd.figures.marks import COLOURS, MARKERS, nth
from nngcd.figures.page import Page
from nngcd.figures.subject import Grouping, Subject, UndrawableError, chosen_classes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SEED, PERPLEXITY = 0, 30.0
N_CLASSES_EACH, IMAGES_PER_CLASS = 5, 200
FEWEST_IMAGES = 5
PANEL = 3.6


def draw(subjects: Sequence[Subject]) -> Page:
    """Return one map per run, each with its own t-SNE: places and directions of two maps cannot be compared."""
    shown = [shown_images(s.grouping, s.wanted_classes) for s in subjects]
    maps = [embed(s.features_nd[rows]) for s, rows in zip(subjects, shown, strict=True)]
    page = Page(PANEL * len(maps) + 2.6, PANEL, caption(subjects, shown), shape=(1, len(maps)))
    for axes, subject, rows, map_n2 in zip(page.panels[0], subjects, shown, maps, strict=True):
        _scatter(axes, map_n2, subject.grouping, rows)
        axes.set_title(subject.name)
    handles, _ = page.panels[0][-1].get_legend_handles_labels()
    page.panels[0][-1].legend(handles=handles, loc="center left", bbox_to_anchor=(1.02, 0.5))
    return page


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


def embed(features_nd: NDArray[Any]) -> NDArray[np.float32]:
    """Return the t-SNE of the features at unit length, from their principal components, with a fixed seed."""
    from sklearn.manifold import TSNE

    norm_n1 = np.linalg.norm(features_nd, axis=1, keepdims=True)
    unit_nd = features_nd / np.where(norm_n1 > 0, norm_n1, 1)
    perplexity = min(PERPLEXITY, (len(unit_nd) - 1) / 3)
    tsne = TSNE(init="pca", perplexity=perplexity, random_state=derive(SEED, "t-SNE") % 2**32)
    map_n2: NDArray[np.float32] = tsne.fit_transform(unit_nd.astype(np.float64)).astype(np.float32)
    return map_n2


def caption(subjects: Sequence[Subject], shown: Sequence[NDArray[np.int64]]) -> list[str]:
    """Return which images are shown, and how."""
    grouping, rows = subjects[0].grouping, shown[0]
    n_classes = len(np.unique(grouping.class_n[rows]))
    what = (
        f"t-SNE of the features of {len(rows):,} images of {n_classes} classes by {grouping.words} (scikit-learn, unit "
        f"length, perplexity {PERPLEXITY:g} or fewer, seed {SEED}). Filled markers: old classes; hollow: new ones; the "
        "numbers stand at the medians. Every map has its own axes; only what lies near to what can be compared."
    )
    return [what, *(subject.facts for subject in subjects)]


def _scatter(axes: Axes, map_n2: NDArray[np.float32], grouping: Grouping, rows: NDArray[np.int64]) -> None:
    for index, class_ in enumerate(np.unique(grouping.class_n[rows])):
        points = map_n2[grouping.class_n[rows] == class_]
        is_old, colour = class_ < grouping.n_old, str(nth(COLOURS, index))
        marker: Any = nth(MARKERS, index)
        face = colour if is_old else "none"
        label = f"{index + 1} {'old' if is_old else 'new'}: {grouping.names[class_]}"
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
